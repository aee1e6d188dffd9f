import ejs from "ejs";

/** Fills in a template. */
export function filled(): string {
  return ejs.render("<%= people.join(', ') %><% if (more) { %> & more<% } %>", {
    people: ["geddy", "<neil>"],
    more: true,
  });
}
