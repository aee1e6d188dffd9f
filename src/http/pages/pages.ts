import { readdirSync, readFileSync } from "node:fs";
import { basename, extname, join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { Request, Response } from "express";
import handlebars from "handlebars";
import { packageRoot, packageVersion } from "../../config.ts";
import { isSignedIn, principalOf } from "../access/authenticate.ts";
import { mayAdminister } from "../access/permit.ts";
import type { Assets } from "../assets.ts";
import { baseOf } from "../place.ts";
import { Fragment, withFragments } from "./fragment.ts";

/**
 * How a page is made: `views/pages/<view>.hbs` in `views/layout.hbs`, with every `views/partials/*.hbs` as a partial.
 * Templates are compiled once and escape every value; a value that they name and that is missing is an error.
 * A script of a page is a file of src/browser/, named in `scripts`; nothing is ever written inline.
 * It knows nothing of what pages are about.
 */
export interface Pages {
  /** Renders a partial for each of the items, for who keeps that because it is asked for often. */
  fragment(partial: string, items: Iterable<object>): Fragment;
  /** Renders a partial for a template to name like any other value. */
  html(partial: string, context: object): unknown;
  /** Renders a page and sends it with its security headers, compressed where the client takes that. */
  send(request: Request, response: Response, view: string, page: Page, status?: number): Promise<void>;
}

/** What the layout needs, together with whatever the page's own template does. */
export interface Page {
  readonly title: string;
  /** Which of the main navigation's entries the page belongs to. */
  readonly section?: "mcp" | "variables" | "servers" | "secrets" | "audit";
  /** The way from the top to this page; the last one has no `href`. */
  readonly crumbs?: readonly Crumb[];
  /** Names of assets, such as `editor.js`. `page.js` is on every page. */
  readonly scripts?: readonly string[];
  /** A new random text for each page whose scripts make styles, as CodeMirror does: only what bears it is applied. */
  readonly styleNonce?: string;
  readonly [field: string]: unknown;
}

export interface Crumb {
  readonly label: string;
  readonly href?: string;
}

const VIEWS = join(packageRoot, "views");
const SECTIONS = [
  { section: "mcp", label: "Servers", href: "/mcp" },
  { section: "variables", label: "Variables", href: "/variables" },
  { section: "servers", label: "Definitions", href: "/servers" },
  { section: "secrets", label: "Secrets", href: "/secrets" },
  { section: "audit", label: "Audit", href: "/audit" },
] as const;

/** No script, style or address but our own, and no page of another site around ours. */
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

/** A partial's lines are not to be indented as the line is that names it: what is in a `pre` would be, too. */
const COMPILE_OPTIONS = {
  strict: true,
  preventIndent: true,
  // Without it every value is looked for among the helpers first, which doubles the time that a page takes.
  knownHelpersOnly: true,
  knownHelpers: { asset: true, is: true, asText: true },
};

const gzipAsync = promisify(gzip);
/** A page is made for one reader, so the time to compress it counts, too: the next level takes twice as long. */
const GZIP_LEVEL = 3;
const COMPRESSED_FROM_BYTES = 1024;

export function createPages(assets: Assets): Pages {
  const engine = handlebars.create();
  engine.registerHelper("asset", (name: string) => assets.url(name));
  engine.registerHelper("is", (left: unknown, right: unknown) => left === right);
  engine.registerHelper("asText", (text: string) => new handlebars.SafeString(escapeText(text)));
  for (const folder of ["partials", "pages"]) {
    for (const file of readdirSync(join(VIEWS, folder))) {
      const name = basename(file, extname(file));
      const text = readFileSync(join(VIEWS, folder, file), "utf8");
      // Compiled here, for else the engine compiles a partial anew for each template that it is part of.
      engine.registerPartial(folder === "pages" ? `pages/${name}` : name, engine.compile(text, COMPILE_OPTIONS));
    }
  }
  const layout = engine.compile(readFileSync(join(VIEWS, "layout.hbs"), "utf8"), COMPILE_OPTIONS);
  const version = packageVersion();

  const partials = engine.partials as Record<string, handlebars.TemplateDelegate>;

  function render(view: string, page: Page, request: Request): Buffer {
    const base = baseOf(request);
    const signedIn = isSignedIn(request);
    const shown = mayAdminister(principalOf(request))
      ? SECTIONS
      : SECTIONS.filter(({ section }) => section !== "audit");
    const nav = shown.map(({ section, label, href }) => ({
      label,
      href: base + href,
      current: section === page.section,
    }));
    const html = layout({ scripts: [], ...page, base, signedIn, version, nav, view: `pages/${view}` });
    return withFragments(
      html,
      Object.values(page).filter((value) => value instanceof Fragment),
    );
  }

  return {
    fragment(partial, items) {
      // One after the other: the text of all of them would be several times as large, and last as long as the work.
      return new Fragment(Buffer.concat(Array.from(items, (item) => Buffer.from(partials[partial]!(item)))));
    },
    html: (partial, context) => new handlebars.SafeString(partials[partial]!(context)),
    async send(request, response, view, page, status = 200) {
      const html = render(view, page, request);
      response.status(status);
      response.setHeader("Content-Type", "text/html; charset=utf-8");
      response.setHeader("Content-Security-Policy", policyFor(page));
      response.setHeader("Referrer-Policy", "same-origin");
      response.setHeader("Cache-Control", principalOf(request) ? "private, no-cache" : "no-cache");
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

/** Escapes what stands between tags and not within one, where quotes are letters like any other. */
function escapeText(text: string): string {
  return text.replace(/[&<>]/g, (letter) => (letter === "&" ? "&amp;" : letter === "<" ? "&lt;" : "&gt;"));
}

function policyFor({ styleNonce }: Page): string {
  return styleNonce === undefined ? POLICY : POLICY.replace("style-src 'self'", `$& 'nonce-${styleNonce}'`);
}
