"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const CHUNK = 40; // rows that are made at a time
  const FAINT = 0.05; // share of a line's largest weight, below which a word bears no weight to speak of
  const WEAKEST = 0.3; // how strong the shade of the smallest weight is that counts, in shares of the strongest
  const TOP = 254, ZERO = 127, UNDEFINED = 255;

  const element = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const hueClass = (hue) => "hue hue-" + hue;

  // what the examples are

  const names = (found) => (Array.isArray(found) ? found : found < 0 ? [] : [found]).map((c) => data.labels[c] ?? String(c));
  const examples = data.examples.map(([place, id, query, gold, predicted, sure, sites]) => {
    const unknown = gold === -1;
    const said = names(predicted), truth = unknown ? [] : names(gold);
    return {
      place, id, query, sure, sites, said: said.join(", ") || "none", truth: truth.join(", ") || "none", unknown,
      classes: Array.isArray(predicted) ? predicted : [predicted],
      right: unknown ? null : said.length === truth.length && said.every((name) => truth.includes(name)),
    };
  });
  let at = data.sites.length - 1;
  const packed = (example) => example.sites[at][0] || example.sites[0][0] || "";
  const items = (example) => {
    const found = [];
    for (const match of packed(example).matchAll(/([\n\t])([^\n\t]*)/g)) found.push({ joined: match[1] === "\t", word: match[2] });
    return found;
  };
  const plain = (example) => packed(example).replace(/\n/g, " ").replace(/\t/g, "").trim();
  const value = (example, column) => {
    const found = example.sites[at][1][column];
    return typeof found === "number" ? found : null;
  };

  // the list

  const state = { key: "place", down: false, order: [], made: 0, chosen: null, shown: new Map(), folded: true };
  const keyed = {
    place: (example) => example.place, text: (example) => example.plain, prediction: (example) => example.said + " " + (1 - example.sure),
  };

  function filter() {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = $("class").value, right = $("right").value;
    const key = typeof state.key === "number" ? (example) => value(example, state.key) : keyed[state.key];
    const found = examples.filter((example) =>
      words.every((word) => example.searched.includes(word))
      && (wanted === "" || example.classes.includes(Number(wanted)))
      && (right === "" || example.right === (right === "1")));
    const sign = state.down ? -1 : 1;
    const compare = typeof state.key === "number" || state.key === "place" ? (a, b) => a - b : (a, b) => a.localeCompare(b);
    state.order = found.map((example) => [key(example), example]).sort(([a, x], [b, y]) =>
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
    const rows = document.createDocumentFragment();
    const end = Math.min(state.order.length, state.made + CHUNK);
    for (; state.made < end; state.made++) rows.append(row(state.order[state.made], state.made));
    $("rows").append(rows);
    const chosen = [...$("rows").children].find((tr) => tr.tabIndex === 0);
    if (!chosen && $("rows").firstChild) $("rows").firstChild.tabIndex = 0;
  }

  function row(example, index) {
    const made = element("tr");
    made.dataset.index = index;
    made.tabIndex = example === state.chosen ? 0 : -1;
    made.setAttribute("aria-selected", example === state.chosen);
    const cell = (className, text) => made.appendChild(element("td", className, text));
    cell("number", example.place + 1);
    const text = cell("text", example.plain.slice(0, 200) || "(no text)"); // more than a row holds
    text.dir = "auto";
    text.title = example.plain.length > 400 ? example.plain.slice(0, 400) + "\u2026" : example.plain;
    const prediction = cell("");
    const pill = element("span", example.right === false ? "pill wrong" : "pill", example.said + (example.sure === null ? "" : " " + example.sure.toFixed(2)));
    if (example.right === false) pill.append(" \u2717");
    pill.title = example.unknown ? "label unknown" : `${example.right ? "right" : "wrong"}, the label is ${example.truth}`;
    prediction.append(pill);
    data.sites[at].columns.forEach((column, c) => {
      const found = example.sites[at][1][c];
      const defined = typeof found === "number";
      const td = cell("number");
      if (column.bar && defined) {
        const track = element("span", "bar-track " + hueClass(column.bar)), fill = element("span", "bar-fill");
        fill.style.width = Math.min(100, 100 * found / column.high) + "%";
        track.append(fill);
        td.append(track);
      }
      td.append(defined ? found.toFixed(column.digits).replace(/^-(0\.?0*)$/, "$1") : "\u2013");
      if (!defined) td.title = found;
    });
    return made;
  }

  function heads() {
    const columns = [["place", "#", "place in the data", true], ["text", "text", "", false], ["prediction", "prediction", "", false]];
    data.sites[at].columns.forEach((column, c) => columns.push([c, column.title, column.help, true]));
    $("head").textContent = "";
    for (const [key, title, help, number] of columns) {
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
    show(state.order[Number(tr.dataset.index)]);
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

  // one example

  function weights(line, signed) {
    const bytes = Uint8Array.from(atob(line[0]), (sign) => sign.charCodeAt(0));
    return [...bytes].map((byte) => byte === UNDEFINED ? NaN : line[1] * (signed ? (byte - ZERO) / ZERO : byte / TOP));
  }
  const said = (number) => Number.isNaN(number) ? "undefined" : number === 0 ? "0" : String(Number(number.toPrecision(3)));

  function lines(example) {
    return data.sites[at].kinds.map((kind, k) => {
      const line = example.sites[at][2][k];
      if (!line) return null;
      const found = { ...kind, k, note: line[line.length - 1] };
      if (kind.outlined) found.named = new Set(line[0]);
      else { found.weights = weights(line, kind.signed); found.largest = line[1]; }
      return found;
    }).filter(Boolean);
  }
  const shareOf = (line, index) => (line.largest > 0 ? Math.abs((line.weights[index] || 0) / line.largest) : 0);
  const shade = (share) => (share < FAINT ? share : WEAKEST + (1 - WEAKEST) * share).toFixed(3);
  const bears = (line, from, to) => { // whether a part of the text holds something of a line
    for (let i = from; i < to; i++) if (line.named ? line.named.has(i) : shareOf(line, i) >= FAINT) return true;
    return false;
  };
  const isShown = (line) => state.shown.get(line.title) ?? line.shown;

  function word(item, index, line) {
    const made = element("span", "w", item.word || "\u00a0");
    if (item.joined) made.classList.add("joined");
    if (!item.word) made.classList.add("part");
    if (!line) return made;
    if (line.named) {
      if (line.named.has(index)) made.classList.add("named");
      return made;
    }
    const weight = line.weights[index];
    made.title = `${item.word}: ${said(weight ?? NaN)}`;
    if (Number.isNaN(weight ?? NaN)) made.classList.add("undefined");
    else if (line.largest > 0) made.style.setProperty("--a", shade(shareOf(line, index)));
    if (weight < 0) made.classList.add("negative");
    return made;
  }
  function fill(place, found, from, to, line) {
    for (let i = from; i < to; i++) {
      if (i > from && !found[i].joined) place.append(" ");
      place.append(word(found[i], i, line));
    }
    return place;
  }

  function breaks(found) { // where the text must break to fit: the same for every line, so words stand under each other
    const measure = fill(element("div", "line measure"), found, 0, found.length, null);
    measure.dir = "auto";
    $("heat").append(measure);
    const tops = [...measure.children].map((span) => span.offsetTop);
    measure.remove();
    const starts = tops.map((top, i) => (i && top > tops[i - 1] + 4 ? i : -1)).filter((i) => i > 0);
    return [0, ...starts, found.length];
  }

  function heat(example) {
    const heat = $("heat"), found = items(example), shown = lines(example).filter(isShown);
    heat.textContent = "";
    const sentences = data.sites[at].noun === "sentence";
    heat.hidden = sentences || !found.length;
    $("legend").hidden = heat.hidden;
    $("fold").hidden = true;
    if (heat.hidden) return;
    const narrow = matchMedia("(max-width: 52rem)").matches;
    const labels = shown.map((line) => heat.appendChild(element("div", "label", line.title)));
    const ends = breaks(found);
    labels.forEach((label) => label.remove());
    const direction = directionOf(plain(example));
    $("fold").hidden = ends.length <= 2 || !shown.length;
    let before = [];
    for (let part = 0; part + 1 < ends.length; part++) {
      const from = ends[part], to = ends[part + 1];
      const kept = part && state.folded ? shown.filter((line) => bears(line, from, to)) : shown;
      if (part && (kept.length || before.length)) heat.append(element("div", "gap"));
      for (const line of kept.length ? kept : [null]) { // a part of which no line holds anything is text alone
        heat.append(element("div", "label", line ? line.title : ""));
        const place = fill(element("div", line ? "line " + hueClass(line.hue) : "line"), found, from, to, line);
        place.dir = direction;
        heat.append(place);
        if (!narrow || !part) heat.append(element("div", "note", part || !line ? "" : line.note));
      }
      before = kept;
    }
  }
  function directionOf(text) { // that of the first letter that has one, for all parts of a text alike
    const letter = text.match(/\p{L}/u);
    return letter && /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u.test(letter[0]) ? "rtl" : "ltr";
  }

  function chips(example) {
    const group = $("chips");
    group.textContent = "";
    for (const line of lines(example)) {
      const chip = element("button", `chip ${hueClass(line.hue)}${line.outlined ? " outlined" : ""}`, line.title);
      chip.type = "button";
      chip.setAttribute("aria-pressed", isShown(line));
      chip.addEventListener("click", () => {
        state.shown.set(line.title, !isShown(line));
        chip.setAttribute("aria-pressed", isShown(line));
        heat(example);
        table(example);
      });
      group.append(chip);
    }
  }

  function table(example) { // the same numbers for those who do not see shades, or point
    const place = $("values-table");
    place.textContent = "";
    if (!$("values").open) return;
    const shown = lines(example).filter(isShown), made = element("table");
    const head = made.createTHead().insertRow(), body = made.createTBody();
    for (const title of [data.sites[at].noun, ...shown.map((line) => line.title)]) {
      const th = element("th", "", title);
      th.scope = "col";
      head.append(th);
    }
    const notes = body.insertRow(), about = element("th", "", "about it");
    notes.className = "notes";
    about.scope = "row";
    notes.append(about, ...shown.map((line) => element("td", "", line.note)));
    items(example).forEach((item, i) => {
      const tr = body.insertRow(), th = element("th", "", item.word || "(part of a sign)");
      th.scope = "row";
      th.dir = "auto";
      tr.append(th);
      for (const line of shown) {
        const td = element("td", hueClass(line.hue), line.named ? (line.named.has(i) ? "\u2713" : "") : said(line.weights[i] ?? NaN));
        if (!line.named && line.largest > 0) td.style.setProperty("--a", shade(shareOf(line, i)));
        tr.append(td);
      }
    });
    place.append(made);
  }

  function show(example) {
    state.chosen = example;
    const gold = example.unknown ? "" : ` (gold ${example.truth})`;
    const sure = example.sure === null ? "" : " " + example.sure.toFixed(2);
    $("example-title").textContent = `#${example.place + 1}, predicted ${example.said}${sure}${gold}`;
    $("example-title").title = "id " + example.id;
    $("query").hidden = example.query === null;
    $("query").textContent = example.query === null ? "" : "asked: " + example.query;
    const known = example.sites[at][3];
    $("known").hidden = !known;
    $("known").textContent = known;
    $("noun").textContent = data.sites[at].noun;
    $("values-table").classList.toggle("whole", data.sites[at].noun === "sentence");
    if (data.sites[at].noun === "sentence") $("values").open = true;
    chips(example);
    heat(example);
    table(example);
  }
  $("fold").addEventListener("click", () => {
    state.folded = !state.folded;
    $("fold").setAttribute("aria-pressed", state.folded);
    if (state.chosen) heat(state.chosen);
  });
  $("values").addEventListener("toggle", () => { if (state.chosen) table(state.chosen); });
  let width = 0;
  new ResizeObserver(() => {
    if (state.chosen && Math.abs($("example").clientWidth - width) > 1) { width = $("example").clientWidth; heat(state.chosen); }
  }).observe($("example"));

  // sites, and the beginning

  function site(place) {
    at = place;
    for (const part of document.querySelectorAll("[data-view]")) part.hidden = Number(part.dataset.view) !== at;
    for (const example of examples) {
      example.plain = plain(example);
      example.searched = `${example.plain} ${example.query ?? ""} ${example.id}`.toLowerCase();
    }
    if (typeof state.key === "number") { state.key = "place"; state.down = false; }
    heads();
    filter();
    if (state.chosen) show(state.chosen);
  }
  $("class").append(new Option("all classes", ""));
  data.labels.forEach((name, c) => $("class").append(new Option(name, c)));
  $("right").hidden = examples.every((example) => example.unknown);
  for (const id of ["search", "class", "right"]) $(id).addEventListener("input", filter);
  $("site")?.addEventListener("input", () => site(Number($("site").value)));
  site(at);
  if (examples.length) choose($("rows").firstChild, false);
  else $("example").hidden = true;
  document.documentElement.dataset.ready = "";
})();
