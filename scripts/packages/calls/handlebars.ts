import Handlebars from "handlebars";

/** Fills in a template. */
export function filled(): string {
  Handlebars.registerHelper("loud", (text: string) => text.toUpperCase());
  const template = Handlebars.compile("{{#each people}}{{loud name}} <{{mail}}>{{/each}}");
  return template({ people: [{ name: "Ada", mail: "a&b" }] });
}
