// Finding a student, and the order of rows. Without this script the table is by name, and the browser's own search finds.
const rows = [...document.querySelectorAll(".matrix tbody tr")], tools = document.getElementById("tools");
const find = document.getElementById("find"), order = document.getElementById("order");
const body = document.querySelector(".matrix tbody");
const points = (row, column) => {
  const found = parseFloat(row.querySelectorAll(".points")[column].textContent);
  return Number.isNaN(found) ? -1 : found; // what is missing comes before what has no points
};
find.addEventListener("input", () => {
  const wanted = find.value.trim().toLowerCase();
  let count = 0;
  for (const row of rows) count += !(row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted));
  document.getElementById("found").textContent = wanted ? `${count} of ${rows.length}` : "";
});
order.addEventListener("change", () => {
  const [column, sign] = order.value.split(" ").map(Number);
  body.append(...(sign ? [...rows].sort((a, b) => sign * (points(a, column) - points(b, column))) : rows));
});
tools.hidden = false;
