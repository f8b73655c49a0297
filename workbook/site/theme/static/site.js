// On paper nothing can be opened: every fold is open there, and as it was before afterwards.
const folded = [];
window.addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details:not([open])")) {
    fold.open = true;
    folded.push(fold);
  }
});
window.addEventListener("afterprint", () => {
  while (folded.length) folded.pop().open = false;
});
