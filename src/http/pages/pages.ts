import { createRequire } from "node:module";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { Principal } from "../../access/principal.ts";
import { packageVersion, packageRoot } from "../../config.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { mayKnow } from "../access/permit.ts";
import type { Assets } from "../assets.ts";
import { handlebars } from "../handlebars.ts";
import type { RoutedContext } from "../routed.ts";
import { Fragment, withFragments } from "./fragment.ts";

/**
 * Renders pages: `views/pages/<view>.hbs` in `views/layout.hbs`, with every `views/partials/*.hbs` as a partial
 * (scripts/compile-views.mjs turns templates into functions). A script of a page is a file of src/browser/, named in `scripts`; nothing
 * is ever inline. It knows nothing of what pages are about.
 */
export interface Pages {
  /**
   * Renders a partial for each item, for callers that keep the result. This may take long, so `giveWay` is awaited
   * every few milliseconds; by default it lets others have their turn.
   */
  fragment(partial: string, items: Iterable<object>, giveWay?: () => Promise<void>): Promise<Fragment>;
  /** Escapes a text for use between tags. It may be long: others have their turns meanwhile. */
  text(text: string): Promise<Fragment>;
  /** Renders a partial for a template to name like any other value. */
  html(partial: string, context: object): unknown;
  /** Renders a page and sends it with its security headers, compressed if the client accepts that. */
  send(context: RoutedContext, view: string, page: Page, status?: number): Promise<void>;
}

/** The values that the layout needs, and those that the page's own template needs. */
export interface Page {
  readonly title: string;
  /** The entry of the main navigation that the page belongs to. */
  readonly section?: string;
  /** Leaves out the main navigation, for a person who may go nowhere yet. */
  readonly bare?: boolean;
  /** The path from the top to this page; the last crumb has no `href`. */
  readonly crumbs?: readonly Crumb[];
  /** Names of assets, such as `editor.js`. `page.js` is on every page. */
  readonly scripts?: readonly string[];
  /** A new nonce for each page whose scripts create styles, as CodeMirror does: only styles with it apply. */
  readonly styleNonce?: string;
  /** The one address that frames of the page may show, with its origin; by default it has no frames. */
  readonly frames?: string;
  /** The fragments that its template names deeper than as a field of the page. */
  readonly fragments?: readonly Fragment[];
  readonly [field: string]: unknown;
}

interface Crumb {
  readonly label: string;
  readonly href?: string;
}

/** An entry of the main navigation. */
export interface Section {
  readonly section: string;
  readonly label: string;
  readonly href: string;
  /** False if its page would refuse the principal. */
  readonly isShown: (principal: Principal | undefined) => boolean;
}

const SECTIONS: readonly Section[] = [
  { section: "mcp", label: "Servers", href: "/mcp", isShown: () => true },
  { section: "variables", label: "Variables", href: "/variables", isShown: mayKnow },
  { section: "packages", label: "Packages", href: "/packages", isShown: mayKnow },
];

/** Only our own scripts, styles and addresses, and no framing by other sites. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "media-src data:",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

const gzipAsync = promisify(gzip);
/** A page is made for one reader, so the time to compress it counts, too: the next level takes twice as long. */
const GZIP_LEVEL = 3;
const COMPRESSED_FROM_BYTES = 1024;
/** The longest that others wait while a page is rendered, except for a single item. */
const PIECE_MS = 2;
/** As many as are escaped in half a millisecond or so. */
const PIECE_UNITS = 16_384;

/**
 * Yields the views of a few items at a time, for a fragment: each rendering has a fixed cost, however many items it
 * has.
 */
export function* inGroups<Item>(items: readonly Item[], viewOf: (item: Item) => object): Generator<readonly object[]> {
  for (let start = 0; start < items.length; start += TOGETHER) yield items.slice(start, start + TOGETHER).map(viewOf);
}

const TOGETHER = 4;

export function createPages(assets: Assets, isWritable = true, added: readonly Section[] = []): Pages {
  const sections = [...SECTIONS, ...added];
  const views = openViews(assets);
  const version = packageVersion();

  function render(view: string, page: Page, { base, isSignedIn, principal }: RoutedContext): Buffer {
    const shown = sections.filter(({ isShown }) => page.bare !== true && isShown(principal));
    const nav = shown.map(({ section, label, href }) => ({
      label,
      href: base + href,
      current: section === page.section,
    }));
    const signedIn = isSignedIn ? principal!.id : "";
    const layout = { base, signedIn, isWritable, version, nav, view: `pages/${view}` };
    const html = views.layout({ scripts: [], ...page, ...layout });
    const named = Object.values(page).filter((value) => value instanceof Fragment);
    return withFragments(html, [...named, ...(page.fragments ?? [])]);
  }

  return {
    async fragment(partial, items, giveWay = () => setImmediate()) {
      const pieces: Buffer[] = [];
      let began = performance.now();
      for (const item of items) {
        // Encoded one by one: the text of all of them would be several times as large, and live as long as the work.
        pieces.push(Buffer.from(views.partial(partial, item)));
        if (performance.now() - began < PIECE_MS) continue;
        await giveWay();
        began = performance.now();
      }
      return new Fragment(Buffer.concat(pieces));
    },
    async text(text) {
      const pieces: Buffer[] = [];
      const takeTurns = createYielder();
      for (let start = 0, end = 0; start < text.length; start = end) {
        await takeTurns();
        end = start + PIECE_UNITS;
        // Half a surrogate pair is not a character.
        if (/[\ud800-\udbff]/.test(text.charAt(end - 1))) end += 1;
        pieces.push(Buffer.from(escapeText(text.slice(start, end))));
      }
      return new Fragment(Buffer.concat(pieces));
    },
    html: (partial, context) => views.safe(views.partial(partial, context)),
    async send(context, view, page, status = 200) {
      const { request, response } = context;
      const html = render(view, page, context);
      response.status(status);
      response.setHeader("Content-Type", "text/html; charset=utf-8");
      response.setHeader("Content-Security-Policy", policyFor(page));
      response.setHeader("Referrer-Policy", "same-origin");
      // A page that nobody may keep has said so.
      if (response.getHeader("Cache-Control") !== "no-store")
        response.setHeader("Cache-Control", context.principal ? "private, no-cache" : "no-cache");
      response.vary("Accept-Encoding");
      if (html.length < COMPRESSED_FROM_BYTES || request.acceptsEncodings("gzip", "identity") !== "gzip") {
        response.end(html);
        return;
      }
      response.setHeader("Content-Encoding", "gzip");
      response.end(await gzipAsync(html, { level: GZIP_LEVEL }));
    },
  };
}

function policyFor({ styleNonce, frames }: Page): string {
  const own = styleNonce === undefined ? POLICY : POLICY.replace("style-src 'self'", `$& 'nonce-${styleNonce}'`);
  return frames === undefined ? own : `${own}; frame-src ${frames}`;
}

/**
 * The templates of `views/` as functions, compiled by `npm run build` (scripts/compile-views.mjs). They escape every
 * value; a missing value is an error.
 */
interface Views {
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
function escapeText(text: string): string {
  return text.replace(/[&<>\r]/g, (letter) => ESCAPES[letter]!);
}

/** `\r` is escaped because HTML parsers turn it into a line feed. */
const ESCAPES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;" };
