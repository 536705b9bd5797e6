(() => { // the examples of one run
  const { $, plain } = Elements;
  const data = JSON.parse($("data").textContent);

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

  // the list

  const prediction = {
    key: "prediction", title: "prediction", help: "", number: false, of: (example) => example.said + " " + (1 - example.sure),
    fill: (td, example) => List.pill(td, example.said, example.sure, example.right, example.truth),
  };
  const bySite = data.sites.map((site, s) => [
    List.place, List.text, prediction,
    ...site.columns.map((head, c) => List.numeric(`${s} ${c}`, head, (example) => example.sites[s][1][c])),
  ]);
  const list = List.list({
    examples,
    columns: () => bySite[at],
    keeps: () => {
      const wanted = $("class").value, right = $("right").value;
      return (example) => (wanted === "" || example.classes.includes(Number(wanted)))
        && (right === "" || example.right === (right === "1"));
    },
    show,
  });

  // one example

  function show(example) {
    const gold = example.unknown ? "" : ` (gold ${example.truth})`;
    const sure = example.sure === null ? "" : " " + example.sure.toFixed(2);
    $("example-title").textContent = `#${example.place + 1}, predicted ${example.said}${sure}${gold}`;
    $("example-title").title = "id " + example.id;
    $("query").hidden = example.query === null;
    $("query").textContent = example.query === null ? "" : "asked: " + example.query;
    const known = example.sites[at][3];
    $("known").hidden = !known;
    $("known").textContent = known;
    Heat.show(packed(example), data.sites[at].noun, data.sites[at].kinds, example.sites[at][2]);
  }

  // sites, and the beginning

  function site(place) {
    at = place;
    for (const part of document.querySelectorAll("[data-view]")) part.hidden = Number(part.dataset.view) !== at;
    for (const example of examples) {
      example.plain = plain(packed(example));
      example.searched = `${example.plain} ${example.query ?? ""} ${example.id}`.toLowerCase();
    }
    list.restart();
  }
  $("class").append(new Option("all classes", ""));
  data.labels.forEach((name, c) => $("class").append(new Option(name, c)));
  $("right").hidden = examples.every((example) => example.unknown);
  for (const id of ["search", "class", "right"]) $(id).addEventListener("input", list.filter);
  $("site")?.addEventListener("input", () => site(Number($("site").value)));
  site(at);
  list.begin();
})();
