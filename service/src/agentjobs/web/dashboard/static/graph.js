// The map of a repository: zoom, pan, full screen, and emphasis on what a box imports and what imports it.
import { shortcuts } from "./dashboard.js";

const frame = document.querySelector(".map .graph-frame");
let fit = 0;

// Keeps a point in its place, and scrolls what does not fit any more. A factor of 0 fits again.
const zoom = (factor, point) => {
  // The stylesheet hides the drawing for wide pages, or the one for narrow pages.
  const svg = [...frame.children].find((drawing) => drawing.clientWidth);
  const { left, top, width } = svg.getBoundingClientRect();
  const box = frame.getBoundingClientRect();
  const { x, y } = point ?? { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  if (!frame.style.height) fit = width;
  const size = Math.min(width * factor, 6 * fit);
  const isZoomed = frame.classList.toggle("zoomed", size > fit);
  frame.style.height = isZoomed ? `${box.height}px` : "";
  svg.setAttribute("width", isZoomed ? size : svg.viewBox.baseVal.width);
  frame.scrollBy((x - left) * (size / width - 1), (y - top) * (size / width - 1));
};
for (const button of document.querySelectorAll("[data-zoom]")) {
  button.onclick = shortcuts[button.dataset.key] = () => zoom(button.dataset.zoom);
}
document.querySelector("[data-full]").onclick = () => frame.parentElement.requestFullscreen();
frame.onwheel = (wheel) => {
  // Without Ctrl, the wheel scrolls.
  if (!wheel.ctrlKey) return;
  wheel.preventDefault();
  zoom(wheel.deltaY < 0 ? 1.1 : 0.9, wheel);
};
frame.ondragstart = () => false;
frame.onpointermove = ({ buttons, pointerType, pointerId, movementX, movementY }) => {
  if (buttons !== 1 || pointerType !== "mouse" || Math.hypot(movementX, movementY) < 2) return;
  // The end of a drag is not a click on a box.
  frame.setPointerCapture(pointerId);
  frame.scrollBy(-movementX, -movementY);
};

const mark = (isLit, isOn) => {
  frame.classList.toggle("lit", isLit);
  for (const item of frame.querySelectorAll(".node, .link")) item.classList.toggle("on", isLit && isOn(item));
};
const has = (list, item) => list.split(" ").includes(item);
const light = ({ target }) => {
  const { node, to } = target.closest(".node")?.dataset ?? {};
  mark(Boolean(node), ({ dataset: other }) =>
    other.edge ? has(other.edge, node) : other.node === node || has(other.to, node) || has(to, other.node));
};
frame.onpointerover = light;
frame.onpointerleave = () => mark(false);
frame.addEventListener("focusin", light);
frame.addEventListener("focusout", () => mark(false));
document.getElementById("q").oninput = ({ target }) => {
  const text = target.value.trim().toLowerCase();
  mark(text !== "", (item) => item.textContent.toLowerCase().includes(text));
};
