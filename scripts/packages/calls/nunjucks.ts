import nunjucks from "nunjucks";

/** Fills in a template. */
export function filled(): string {
  nunjucks.configure({ autoescape: true });
  return nunjucks.renderString("Hello {{ username | upper }}{% for n in numbers %} {{ n }}{% endfor %}", {
    username: "<James>",
    numbers: [1, 2],
  });
}
