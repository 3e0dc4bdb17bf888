// Searches students, sorts rows and shows one page of them at a time. Without this script the table has the first page.
const at = (id) => document.getElementById(id), body = document.querySelector(".matrix tbody");
const { size, signs, files, views, rows } = JSON.parse(at("rows").textContent);
const element = (name, properties) => Object.assign(document.createElement(name), properties);
const parts = (view) => view.split(/ (.*)/); // the digits of the signs, and the points or the word in their place
let page = 0;
function line([student, folder, score, ...found]) {
  const made = element("tr");
  made.append(element("th", { scope: "row", textContent: student }), element("td", { className: "points", textContent: score }));
  found.forEach((view, lesson) => {
    const [digits, points] = parts(views[view]), first = element("td", { className: "points lesson" });
    if (points) first.append(element("a", { href: `feedback/${folder}/${files[lesson]}`, textContent: points }));
    made.append(first);
    for (const digit of digits) {
      const [sign, style] = signs[parseInt(digit, 16)];
      made.append(element("td", { className: style, textContent: sign }));
    }
  });
  return made;
}
function points(row, column) {
  const found = parseFloat(column ? parts(views[row[2 + column]])[1] : row[2]);
  return Number.isNaN(found) ? -1 : found; // a missing notebook sorts below one without points
}
function show(wanted) {
  const name = at("find").value.trim().toLowerCase(), [column, sign] = at("order").value.split(" ").map(Number);
  const found = rows.filter((row) => row[0].toLowerCase().includes(name));
  if (sign) found.sort((one, other) => sign * (points(one, column) - points(other, column)));
  page = wanted;
  const end = Math.min((page + 1) * size, found.length), paged = found.length > size;
  body.replaceChildren(...found.slice(page * size, end).map(line));
  body.closest(".matrix").scrollTop = 0;
  at("found").textContent = paged ? `${page * size + 1} to ${end} of ${found.length}` : name ? `${end} of ${rows.length}` : "";
  at("pages").hidden = !paged;
  at("before").disabled = !page;
  at("after").disabled = end === found.length;
}
at("find").addEventListener("input", () => show(0));
at("order").addEventListener("change", () => show(0));
at("before").addEventListener("click", () => show(page - 1));
at("after").addEventListener("click", () => show(page + 1));
at("part")?.remove();
at("tools").hidden = false;
show(0);
