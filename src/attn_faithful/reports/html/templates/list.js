const List = (() => { // the list of examples: filtered, sorted, made a part at a time, moved through by keyboard
  const { $, element, hueClass, isNumber, fixed } = Elements;
  const CHUNK = 40; // rows that are made at a time

  // columns: { key, title, help, number, of: example -> what it sorts by, null where undefined, fill: (td, example) }

  const place = { key: "place", title: "#", help: "place in the data", number: true, of: (example) => example.place, fill: (td, example) => td.append(example.place + 1) };
  const text = {
    key: "text", title: "text", help: "", number: false, of: (example) => example.plain,
    fill: (td, example) => {
      td.className = "text";
      td.textContent = example.plain.slice(0, 200) || "(no text)"; // more than a row holds
      td.dir = "auto";
      td.title = example.plain.length > 400 ? example.plain.slice(0, 400) + "\u2026" : example.plain;
    },
  };
  function pill(td, said, sure, right, truth) {
    const made = element("span", right === false ? "pill wrong" : "pill", said + (sure === null ? "" : " " + sure.toFixed(2)));
    if (right === false) made.append(" \u2717");
    made.title = right === null ? "label unknown" : `${right ? "right" : "wrong"}, the label is ${truth}`;
    td.append(made);
  }
  const numeric = (key, head, of) => ({ // `of` gives a number, or why there is none
    key, title: head.title, help: head.help, number: true,
    of: (example) => isNumber(of(example)) ? of(example) : null,
    fill: (td, example) => {
      const found = of(example), defined = isNumber(found);
      if (head.bar && defined) {
        const track = element("span", "bar-track " + hueClass(head.bar)), fill = element("span", "bar-fill");
        fill.style.width = Math.min(100, 100 * found / head.high) + "%";
        track.append(fill);
        td.append(track);
      }
      td.append(defined ? fixed(found, head.digits) : "\u2013");
      if (!defined && found) td.title = found;
    },
  });

  function list({ examples, columns, keeps, show, sorted = { key: "place", down: false } }) {
    const state = { ...sorted, order: [], made: 0, chosen: null };

    function filter() {
      const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean), keep = keeps();
      const found = examples.filter((example) => words.every((word) => example.searched.includes(word)) && keep(example));
      const { of, number } = columns().find((column) => column.key === state.key);
      const sign = state.down ? -1 : 1;
      const compare = number ? (a, b) => a - b : (a, b) => a.localeCompare(b);
      state.order = found.map((example) => [of(example), example]).sort(([a, x], [b, y]) =>
        a === null || b === null ? (a === null) - (b === null) || x.place - y.place : sign * compare(a, b) || x.place - y.place,
      ).map(([, example]) => example); // what is undefined stands last either way
      $("rows").textContent = "";
      state.made = 0;
      $("list").scrollTop = 0;
      more();
      $("nothing").hidden = found.length > 0;
      const format = (n) => n.toLocaleString("en");
      $("count").textContent = `${format(found.length)} of ${format(examples.length)}`;
    }

    function more() {
      const rows = document.createDocumentFragment(), shown = columns();
      const end = Math.min(state.order.length, state.made + CHUNK);
      for (; state.made < end; state.made++) rows.append(row(state.order[state.made], state.made, shown));
      $("rows").append(rows);
      const chosen = [...$("rows").children].find((tr) => tr.tabIndex === 0);
      if (!chosen && $("rows").firstChild) $("rows").firstChild.tabIndex = 0;
    }

    function row(example, index, shown) {
      const made = element("tr");
      made.dataset.index = index;
      made.tabIndex = example === state.chosen ? 0 : -1;
      made.setAttribute("aria-selected", example === state.chosen);
      for (const column of shown) column.fill(made.appendChild(element("td", column.number ? "number" : "")), example);
      return made;
    }

    function heads() {
      $("head").textContent = "";
      for (const { key, title, help, number } of columns()) {
        const th = element("th", number ? "number" : "");
        th.scope = "col";
        const button = element("button", "", title);
        button.type = "button";
        if (help) button.title = help;
        th.setAttribute("aria-sort", "none");
        th.dataset.key = key;
        button.addEventListener("click", () => {
          state.down = state.key === key ? !state.down : false;
          state.key = key;
          marks();
          filter();
        });
        th.append(button);
        $("head").append(th);
      }
      marks();
    }
    function marks() {
      for (const th of $("head").children)
        th.setAttribute("aria-sort", th.dataset.key === String(state.key) ? (state.down ? "descending" : "ascending") : "none");
    }

    // moving through the list

    const current = () => [...$("rows").children].find((tr) => tr.tabIndex === 0);
    function choose(tr, focus) {
      for (const other of $("rows").children) {
        other.tabIndex = other === tr ? 0 : -1;
        other.setAttribute("aria-selected", other === tr);
      }
      if (focus) {
        tr.focus({ preventScroll: true });
        tr.scrollIntoView({ block: "nearest" });
        const head = $("head").getBoundingClientRect().bottom - tr.getBoundingClientRect().top;
        if (head > 0) $("list").scrollTop -= head; // from under the sticky head
      }
      state.chosen = state.order[Number(tr.dataset.index)];
      show(state.chosen);
    }
    function move(to) {
      while (to >= state.made && state.made < state.order.length) more();
      const tr = $("rows").children[Math.max(0, Math.min(to, state.order.length - 1))];
      if (tr) choose(tr, true);
    }
    function open() {
      const title = $("example-title");
      title.focus({ preventScroll: true });
      title.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    }
    $("rows").addEventListener("keydown", (event) => {
      const tr = event.target.closest("tr");
      if (!tr || event.ctrlKey || event.metaKey || event.altKey) return;
      const index = Number(tr.dataset.index);
      const to = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: state.order.length - 1, PageDown: index + 8, PageUp: index - 8 }[event.key];
      if (to !== undefined) { event.preventDefault(); move(Math.max(0, to)); }
      else if (event.key === "Enter") { event.preventDefault(); choose(tr, false); open(); }
    });
    $("rows").addEventListener("click", (event) => {
      const tr = event.target.closest("tr");
      if (tr) choose(tr, true);
    });
    document.addEventListener("keydown", (event) => {
      const tr = current();
      if (event.key === "Escape" && tr && ($("example").contains(event.target) || event.target === $("example-title"))) move(Number(tr.dataset.index));
    });
    $("list").addEventListener("scroll", () => {
      const list = $("list");
      if (list.scrollTop + list.clientHeight > list.scrollHeight - 400) more();
    });

    return {
      filter,
      restart: () => { // other columns
        if (!columns().some((column) => column.key === state.key)) Object.assign(state, sorted);
        heads();
        filter();
        if (state.chosen) show(state.chosen);
      },
      begin: () => {
        if (examples.length) choose($("rows").firstChild, false);
        else $("example").hidden = true;
        document.documentElement.dataset.ready = "";
      },
    };
  }
  return { list, place, text, pill, numeric };
})();
