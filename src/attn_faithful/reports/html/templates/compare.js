(() => { // the texts of two models
  const { $, element, fixed, isNumber, plain } = Elements;
  const data = JSON.parse($("data").textContent);

  // what the examples are

  const names = (found) => (Array.isArray(found) ? found : found < 0 ? [] : [found]).map((c) => data.labels[c] ?? String(c));
  const reason = (found) => isNumber(found) ? found : data.reasons[Number(found)];
  const examples = data.examples.map(([place, id, query, gold, predicted, sure, text, distances, numbers, lines]) => {
    const unknown = gold === -1, truth = unknown ? "unknown" : names(gold).join(", ") || "none";
    const said = predicted.map((found) => names(found).join(", ") || (found === -1 ? "not predicted" : "none"));
    const example = {
      place, id, query, sure, text, lines, unknown, truth, said,
      golds: Array.isArray(gold) ? gold : [gold], classes: predicted.flat(),
      right: said.map((name, which) => unknown || sure[which] === null ? null : name === truth),
      distances: distances.map(reason), numbers: numbers.map(reason), plain: plain(text),
      differ: sure.includes(null) ? null : said[0] !== said[1],
    };
    example.searched = `${example.plain} ${query ?? ""} ${id}`.toLowerCase();
    return example;
  });

  // the list: predictions, distances, and one number of both models that can be chosen

  let chosen = Math.min(data.first, data.numbers.length - 1);
  const of = (example, which) => example.numbers[2 * chosen + which];
  const difference = (example) => {
    const [a, b] = [of(example, 0), of(example, 1)];
    if (!isNumber(a)) return a;
    return isNumber(b) ? a - b : b;
  };
  const prediction = (which) => ({
    key: `prediction ${which}`, title: `${data.letters[which]} says`, help: `prediction of ${data.letters[which]}`, number: false,
    of: (example) => example.said[which] + " " + (1 - example.sure[which]),
    fill: (td, example) => List.pill(td, example.said[which], example.sure[which], example.right[which], example.truth),
  });
  const fixedColumns = [
    List.place, List.text, prediction(0), prediction(1),
    ...data.distances.map((head, d) => List.numeric(`distance ${d}`, { ...head, title: head.short }, (example) => example.distances[d])),
  ];
  const numberColumns = () => {
    const { title, help } = data.numbers[chosen], head = (name) => ({ title: name, help: `${title}: ${help}`, digits: 3 });
    const [a, b] = data.letters;
    return [
      List.numeric("first", head(`number ${a}`), (example) => of(example, 0)),
      List.numeric("second", head(`number ${b}`), (example) => of(example, 1)),
      List.numeric("difference", head(`${a} - ${b}`), difference),
    ];
  };
  let columns = [...fixedColumns, ...numberColumns()];
  const right = { first: [true, false], second: [false, true] };
  const list = List.list({
    examples,
    columns: () => columns,
    keeps: () => {
      const label = $("label").value, wanted = $("class").value, decisions = $("decisions").value;
      const fits = (example) => {
        if (decisions === "differ") return example.differ === true;
        if (decisions === "agree") return example.differ === false;
        return decisions === "" || right[decisions].every((found, which) => example.right[which] === found);
      };
      return (example) => (label === "" || example.golds.includes(Number(label)))
        && (wanted === "" || example.classes.includes(Number(wanted))) && fits(example);
    },
    show,
    sorted: { key: "distance 0", down: true },
  });

  // one text

  let shown = null;
  const predicted = (example, which) =>
    `${data.letters[which]} ${example.said[which]}${example.sure[which] === null ? "" : " " + example.sure[which].toFixed(2)}`;
  function show(example) {
    shown = example;
    const gold = example.unknown ? "" : ` (gold ${example.truth})`;
    $("example-title").textContent = `#${example.place + 1}, predicted ${predicted(example, 0)}, ${predicted(example, 1)}${gold}`;
    $("example-title").title = "id " + example.id;
    $("query").hidden = example.query === null;
    $("query").textContent = example.query === null ? "" : "asked: " + example.query;
    const apart = data.distances.map((head, d) => {
      const found = example.distances[d];
      return `${head.title} ${isNumber(found) ? fixed(found, head.digits) : `undefined (${found})`}`;
    });
    $("both").textContent = apart.join(", ") + ".";
    Heat.show(example.text, data.noun, data.kinds, example.lines);
    table();
  }
  function table() { // every number of both models
    $("all-table").textContent = "";
    if (!$("all").open || !shown) return;
    const made = element("table"), head = made.createTHead().insertRow(), body = made.createTBody();
    const [a, b] = data.letters;
    for (const title of ["number", a, b, `${a} - ${b}`]) {
      const th = element("th", "", title);
      th.scope = "col";
      head.append(th);
    }
    data.numbers.forEach(({ title, digits }, n) => {
      const tr = body.insertRow(), th = element("th", "", title);
      th.scope = "row";
      tr.append(th);
      const [first, second] = [shown.numbers[2 * n], shown.numbers[2 * n + 1]];
      const apart = isNumber(first) && isNumber(second) ? first - second : "";
      for (const found of [first, second, apart]) {
        const td = element("td", "", isNumber(found) ? fixed(found, digits) : "\u2013");
        if (found && !isNumber(found)) td.title = found;
        tr.append(td);
      }
    });
    $("all-table").append(made);
  }
  $("all").addEventListener("toggle", table);

  // the beginning

  $("label").append(new Option("all labels", ""));
  $("class").append(new Option("all classes", ""));
  data.labels.forEach((name, c) => {
    $("label").append(new Option(`label ${name}`, c));
    $("class").append(new Option(`predicted ${name}`, c));
  });
  $("label").hidden = examples.every((example) => example.unknown);
  data.numbers.forEach(({ title }, n) => $("number").append(new Option(title, n, n === chosen, n === chosen)));
  for (const id of ["search", "label", "class", "decisions"]) $(id).addEventListener("input", list.filter);
  $("number").addEventListener("input", () => {
    chosen = Number($("number").value);
    columns = [...fixedColumns, ...numberColumns()];
    list.restart();
  });
  list.restart();
  list.begin();
})();
