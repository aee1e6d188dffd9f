import type { ToolContext } from "berth";
import { parse } from "node-html-parser";
import TurndownService from "turndown";

/** A page of the web as Markdown. */
interface Page {
  /** Where it was found, after all redirects. */
  url: string;
  title?: string;
  markdown: string;
  /** Where to go on, when there is more: pass it as `start`. */
  next?: number;
}

interface Wanted {
  /**
   * The address of the page. Its host has to be one that this server may reach.
   * @format uri
   */
  url: string;
  /**
   * How many characters to leave out at the beginning.
   * @minimum 0
   */
  start?: number;
  /**
   * The most characters to give.
   * @minimum 100
   * @maximum 200000
   */
  length?: number;
}

/**
 * Fetches a web page and gives it as Markdown; other texts come as they are.
 * @title Read a web page
 * @readOnly
 * @openWorld
 */
export async function read({ url, start = 0, length = 20_000 }: Wanted, context: ToolContext): Promise<Page> {
  const response = await fetch(url, {
    signal: context.signal,
    headers: { Accept: "text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.7" },
  });
  if (!response.ok) throw new Error(`${url} answered ${response.status} ${response.statusText}`.trim());
  const type = (response.headers.get("content-type") ?? "text/plain").split(";")[0]!.trim().toLowerCase();
  if (!/^text\/|^application\/(?:xhtml\+xml|json|xml)$|\+json$|\+xml$/.test(type)) {
    throw new Error(`${url} is ${type}, and not a text`);
  }
  const text = await response.text();
  const { title, markdown } = /html/.test(type) ? asMarkdown(text) : { title: undefined, markdown: text };
  const end = start + length;
  return {
    url: response.url || url,
    ...(title && { title }),
    markdown: markdown.slice(start, end),
    ...(markdown.length > end && { next: end }),
  };
}

/** What a page says, without what stands around it. */
function asMarkdown(html: string): { title: string | undefined; markdown: string } {
  const page = parse(html);
  const title = page.querySelector("title")?.textContent.trim();
  for (const each of page.querySelectorAll(AROUND)) each.remove();
  const main = page.querySelector("main, article, [role=main]") ?? page.querySelector("body") ?? page;
  const converter = new TurndownService({ headingStyle: "atx", codeBlockStyle: "fenced", bulletListMarker: "-" });
  return { title, markdown: converter.turndown(main.innerHTML).trim() };
}

const AROUND = "script, style, noscript, template, iframe, svg, nav, header, footer, aside, form, title";
