const Heat = (() => { // one example: its items under one another in the shades of each line, and as a table
  const { $, element, hueClass, short } = Elements;
  const FAINT = 0.05; // share of a line's largest weight, below which a word bears no weight to speak of
  const WEAKEST = 0.3; // how strong the shade of the smallest weight is that counts, in shares of the strongest
  const TOP = 254, ZERO = 127, UNDEFINED = 255;

  const state = { shown: new Map(), folded: true, made: null };

  // lines: kinds { title, hue, outlined, shown, signed } with what is packed of an example, 0 where it has none

  function weights(line, signed) {
    const bytes = Uint8Array.from(atob(line[0]), (sign) => sign.charCodeAt(0));
    return [...bytes].map((byte) => byte === UNDEFINED ? NaN : line[1] * (signed ? (byte - ZERO) / ZERO : byte / TOP));
  }
  const lines = (kinds, packed) => kinds.map((kind, k) => {
    const line = packed[k];
    if (!line) return null;
    const found = { ...kind, note: line[line.length - 1] };
    if (kind.outlined) found.named = new Set(line[0]);
    else { found.weights = weights(line, kind.signed); found.largest = line[1]; }
    return found;
  }).filter(Boolean);
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
    made.title = `${item.word}: ${short(weight ?? NaN)}`;
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

  function heat() {
    const heat = $("heat"), found = state.made.items, shown = state.made.lines.filter(isShown);
    heat.textContent = "";
    heat.hidden = state.made.noun === "sentence" || !found.length;
    $("legend").hidden = heat.hidden;
    $("fold").hidden = true;
    if (heat.hidden) return;
    const narrow = matchMedia("(max-width: 52rem)").matches;
    const labels = shown.map((line) => heat.appendChild(element("div", "label", line.title)));
    const ends = breaks(found);
    labels.forEach((label) => label.remove());
    const direction = directionOf(state.made.plain);
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

  function chips() {
    const group = $("chips");
    group.textContent = "";
    for (const line of state.made.lines) {
      const chip = element("button", `chip ${hueClass(line.hue)}${line.outlined ? " outlined" : ""}`, line.title);
      chip.type = "button";
      chip.setAttribute("aria-pressed", isShown(line));
      chip.addEventListener("click", () => {
        state.shown.set(line.title, !isShown(line));
        chip.setAttribute("aria-pressed", isShown(line));
        heat();
        table();
      });
      group.append(chip);
    }
  }

  function table() { // the same numbers for those who do not see shades, or point
    const place = $("values-table");
    place.textContent = "";
    if (!$("values").open) return;
    const shown = state.made.lines.filter(isShown), made = element("table");
    const head = made.createTHead().insertRow(), body = made.createTBody();
    for (const title of [state.made.noun, ...shown.map((line) => line.title)]) {
      const th = element("th", "", title);
      th.scope = "col";
      head.append(th);
    }
    const notes = body.insertRow(), about = element("th", "", "about it");
    notes.className = "notes";
    about.scope = "row";
    notes.append(about, ...shown.map((line) => element("td", "", line.note)));
    state.made.items.forEach((item, i) => {
      const tr = body.insertRow(), th = element("th", "", item.word || "(part of a sign)");
      th.scope = "row";
      th.dir = "auto";
      tr.append(th);
      for (const line of shown) {
        const td = element("td", hueClass(line.hue), line.named ? (line.named.has(i) ? "\u2713" : "") : short(line.weights[i] ?? NaN));
        if (!line.named && line.largest > 0) td.style.setProperty("--a", shade(shareOf(line, i)));
        tr.append(td);
      }
    });
    place.append(made);
  }

  function show(packed, noun, kinds, ofKinds) {
    state.made = { items: Elements.items(packed), plain: Elements.plain(packed), noun, lines: lines(kinds, ofKinds) };
    $("noun").textContent = noun;
    $("values-table").classList.toggle("whole", noun === "sentence");
    if (noun === "sentence") $("values").open = true;
    chips();
    heat();
    table();
  }
  $("fold").addEventListener("click", () => {
    state.folded = !state.folded;
    $("fold").setAttribute("aria-pressed", state.folded);
    if (state.made) heat();
  });
  $("values").addEventListener("toggle", () => { if (state.made) table(); });
  let width = 0;
  new ResizeObserver(() => {
    if (state.made && Math.abs($("example").clientWidth - width) > 1) { width = $("example").clientWidth; heat(); }
  }).observe($("example"));
  return { show };
})();
