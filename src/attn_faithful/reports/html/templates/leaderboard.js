"use strict";
(() => {
  const $ = (id) => document.getElementById(id);

  // tables sort by the column whose head is pressed; what is undefined stands last either way

  const valueOf = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  function sort(table, th) {
    const column = th.cellIndex, isNumber = th.classList.contains("number");
    const before = th.getAttribute("aria-sort");
    const down = before === "none" ? isNumber : before === "ascending"; // numbers begin with the largest
    for (const other of table.tHead.rows[0].cells) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
    th.setAttribute("aria-sort", down ? "descending" : "ascending");
    const sign = down ? -1 : 1;
    const compare = isNumber ? (a, b) => Number(a) - Number(b) : (a, b) => a.localeCompare(b, "en", { numeric: true });
    const keyed = [...table.tBodies[0].rows].map((row) => [valueOf(row, column), row]);
    keyed.sort(([a], [b]) => (a === "" || b === "" ? (a === "") - (b === "") : sign * compare(a, b)));
    table.tBodies[0].append(...keyed.map(([, row]) => row));
  }
  for (const table of document.querySelectorAll("table.sorted"))
    for (const th of table.tHead.rows[0].cells) th.querySelector("button")?.addEventListener("click", () => sort(table, th));

  // of all numbers, those of one level and length

  function filter() {
    for (const name of ["level", "length"]) {
      const wanted = $(name)?.value ?? "";
      for (const row of document.querySelectorAll(`tr[data-${name}]`))
        row.classList.toggle(`not-${name}`, wanted !== "" && row.dataset[name] !== wanted);
    }
    const rows = [...document.querySelectorAll("tr[data-level]")];
    $("nothing").hidden = !rows.length || rows.some((row) => !row.matches(".not-level, .not-length"));
  }
  for (const name of ["level", "length"]) $(name)?.addEventListener("input", filter);
  filter();

  // a submission's name leads to its numbers

  function open() {
    const target = location.hash && $(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) target.open = true;
  }
  addEventListener("hashchange", open);
  document.addEventListener("click", (event) => { if (event.target.closest("a[href^='#']")) setTimeout(open); });
  open();
  document.documentElement.dataset.ready = "";
})();
