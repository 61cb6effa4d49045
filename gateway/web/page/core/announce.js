// What assistive technology is told.

export function announce(text) {
  const region = document.getElementById("announce");
  region.textContent = "";
  setTimeout(() => (region.textContent = text), 50); // the same words twice are read twice
}
