"use strict";
(() => { // light or dark
  const stored = { // a page from a file may keep nothing
    get: () => { try { return localStorage.getItem("attn-faithful-theme"); } catch { return null; } },
    set: (look) => { try { localStorage.setItem("attn-faithful-theme", look); } catch { /* it holds until the page is left */ } },
  };
  if (stored.get()) document.documentElement.dataset.theme = stored.get();
  document.getElementById("theme").addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
    stored.set(document.documentElement.dataset.theme);
  });
})();
