// What the theme leaves out for those who read by ear or by keyboard.
function name_search() {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
}

// what is wider than the page can be reached, and then moved, by the keyboard
function reach_what_scrolls() {
  document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
    } else {
      box.removeAttribute("tabindex");
    }
  });
}

// the button beside a block of code, and the parts of a table of contents, are no places of their own
function fewer_landmarks() {
  document.querySelectorAll(".md-code__nav, .md-nav--secondary .md-nav").forEach((part) => {
    part.setAttribute("role", "none");
    part.removeAttribute("aria-label");
  });
}

function mend() {
  name_search();
  reach_what_scrolls();
  fewer_landmarks();
}

new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
window.addEventListener("resize", mend);
mend();
