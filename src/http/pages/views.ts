import { createRequire } from "node:module";
import { join } from "node:path";
import { packageRoot } from "../../config.ts";
import type { Assets } from "../assets.ts";
import { handlebars } from "../handlebars.ts";

/**
 * The templates of `views/` as functions, compiled by `npm run build` (scripts/compile-views.mjs). They escape every
 * value; a missing value is an error.
 */
export interface Views {
  layout(page: object): string;
  partial(name: string, context: object): string;
  /** Marks HTML that templates must not escape. */
  safe(html: string): unknown;
}

interface Compiled {
  readonly layout: TemplateSpecification;
  readonly partials: Readonly<Record<string, TemplateSpecification>>;
}

const require = createRequire(import.meta.url);

export function openViews(assets: Assets): Views {
  const { layout, partials } = require(join(packageRoot, "dist/views.cjs")) as Compiled;
  const engine = handlebars.create();
  engine.registerHelper("asset", (name: string) => assets.url(name));
  engine.registerHelper("is", (left: unknown, right: unknown) => left === right);
  engine.registerHelper("asText", (text: string) => new handlebars.SafeString(escapeText(text)));
  const made = Object.fromEntries(
    Object.entries(partials).map(([name, specification]) => [name, engine.template(specification)]),
  );
  engine.registerPartial(made);
  return {
    layout: engine.template(layout),
    partial: (name, context) => made[name]!(context),
    safe: (html) => new handlebars.SafeString(html),
  };
}

/** Escapes a text for use between tags, not within one; there, quotes need no escaping. */
export function escapeText(text: string): string {
  return text.replace(/[&<>\r]/g, (letter) => ESCAPES[letter]!);
}

/**
 * \r is escaped because browsers would turn \r
 * into
 * .
 */
const ESCAPES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;" };
