const Elements = (() => { // what every part of a page makes its elements with
  const $ = (id) => document.getElementById(id);
  const element = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const hueClass = (hue) => "hue hue-" + hue;
  const isNumber = (found) => typeof found === "number";
  const fixed = (found, digits) => found.toFixed(digits).replace(/^-(0\.?0*)$/, "$1"); // never -0
  const short = (found) => Number.isNaN(found) ? "undefined" : found === 0 ? "0" : String(Number(found.toPrecision(3)));

  // a text is its items in one string, each behind a blank of its own

  const items = (packed) => {
    const found = [];
    for (const match of packed.matchAll(/([\n\t])([^\n\t]*)/g)) found.push({ joined: match[1] === "\t", word: match[2] });
    return found;
  };
  const plain = (packed) => packed.replace(/\n/g, " ").replace(/\t/g, "").trim();
  return { $, element, hueClass, isNumber, fixed, short, items, plain };
})();
