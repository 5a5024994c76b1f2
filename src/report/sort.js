for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 3) continue;
  const value = (row, at) => {
    const text = row.cells[at].textContent.replace(/\u2212/g, "-").replace(/[\u202f$€£]/g, "");
    const number = parseFloat(text);
    return at === 0 || Number.isNaN(number) ? text : number;
  };
  [...table.tHead.rows[0].cells].forEach((cell, at) => {
    const button = document.createElement("button");
    button.textContent = cell.textContent;
    cell.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = cell.getAttribute("aria-sort") === "descending" ? 1 : -1;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", down === 1 ? "ascending" : "descending");
      const order = (a, b) => {
        const [x, y] = [value(a, at), value(b, at)];
        if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
        return down * (x < y ? -1 : x > y ? 1 : 0);
      };
      body.append(...[...body.rows].sort(order));
    });
  });
}
