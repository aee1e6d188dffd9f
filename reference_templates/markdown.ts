import GithubSlugger from "github-slugger";
import type { Element, Nodes, Root } from "hast";
import rehypeRaw from "rehype-raw";
import rehypeSanitize from "rehype-sanitize";
import rehypeStringify from "rehype-stringify";
import remarkGfm from "remark-gfm";
import remarkParse from "remark-parse";
import remarkRehype from "remark-rehype";
import { unified } from "unified";

/**
 * GitHub-flavoured Markdown, made into HTML that is safe to show: what could run a script, load a frame or pose as a
 * part of the page around it is taken out, by the same rules as on GitHub. Ids carry the prefix `user-content-`.
 */

/**
 * The rank of a heading: 1 for the title, up to 6. Tags on a type of your own hold wherever it is used.
 *
 * @minimum 1
 * @maximum 6
 * @multipleOf 1
 */
type Level = number;

/** A heading, in the order of the document. */
interface Heading {
  level: Level;
  text: string;
  /** The id in the HTML that `convert` makes. */
  id: string;
}

/** A link or an image. */
interface Link {
  kind: "link" | "image";
  url: string;
  /** The text of a link, the description of an image. */
  text: string;
}

/**
 * Converts GitHub-flavoured Markdown to sanitized HTML: tables, task lists, strikethrough, footnotes, plain links and
 * harmless inline HTML are kept.
 *
 * @param markdown - The document.
 * @readOnly
 * @idempotent
 */
export async function convert(markdown: string): Promise<string> {
  return unified()
    .use(rehypeStringify)
    .stringify(await render(markdown));
}

/**
 * Lists the headings of a Markdown document.
 *
 * @param markdown - The document.
 * @readOnly
 * @idempotent
 */
export async function outline(markdown: string): Promise<Heading[]> {
  return elements(await render(markdown))
    .filter((element) => isHeading(element) && !isFootnoteLabel(element))
    .map((element) => ({
      level: Number(element.tagName.slice(1)),
      text: textOf(element),
      id: String(element.properties["id"]),
    }));
}

/**
 * Makes a table of contents: a Markdown list that links to the headings in the HTML that `convert` makes.
 *
 * @param markdown - The document.
 * @param depth - The deepest level of headings to list.
 * @readOnly
 * @idempotent
 */
export async function contents(markdown: string, depth: Level = 3): Promise<string> {
  const headings = (await outline(markdown)).filter(({ level }) => level <= depth);
  const top = Math.min(...headings.map(({ level }) => level));
  return headings
    .map(
      ({ level, text, id }) =>
        `${"  ".repeat(level - top)}- [${text.replace(/[\\[\]]/g, "\\$&")}](#${id.replace(prefix, "")})`,
    )
    .join("\n");
}

/**
 * Lists every link and image of a Markdown document, with only those addresses that are safe to follow.
 *
 * @param markdown - The document.
 * @readOnly
 * @idempotent
 */
export async function links(markdown: string): Promise<Link[]> {
  return elements(await render(markdown)).flatMap((element): Link[] => {
    const { href, src, alt } = element.properties;
    if (element.tagName === "a" && href) return [{ kind: "link", url: String(href), text: textOf(element) }];
    if (element.tagName === "img" && src) return [{ kind: "image", url: String(src), text: String(alt ?? "") }];
    return [];
  });
}

const prefix = "user-content-";

/** Raw HTML is parsed before it is sanitized: what is left is a tree, so nothing can hide in broken markup. */
const processor = unified()
  .use(remarkParse)
  .use(remarkGfm)
  .use(remarkRehype, { allowDangerousHtml: true, clobberPrefix: "" })
  .use(rehypeRaw)
  .use(rehypeSanitize)
  .use(() => nameHeadings)
  .use(() => followPrefix)
  .freeze();

async function render(markdown: string): Promise<Root> {
  return (await processor.run(processor.parse(markdown))) as Root;
}

/** Gives each heading the id that GitHub gives it; two of the same text get different ones. */
function nameHeadings(tree: Root): void {
  const slugger = new GithubSlugger();
  for (const element of elements(tree).filter(isHeading)) {
    element.properties["id"] ??= prefix + slugger.slug(textOf(element).trim());
  }
}

/** Sanitizing puts the prefix before ids; links within the document go after them. */
function followPrefix(tree: Root): void {
  for (const { properties } of elements(tree)) {
    const { href } = properties;
    if (typeof href === "string" && /^#./.test(href)) properties["href"] = `#${prefix}${href.slice(1)}`;
  }
}

function elements(node: Nodes): Element[] {
  const children = "children" in node ? node.children.flatMap(elements) : [];
  return node.type === "element" ? [node, ...children] : children;
}

function textOf(node: Nodes): string {
  if (node.type === "text") return node.value;
  return "children" in node ? node.children.map(textOf).join("") : "";
}

function isHeading(element: Element): boolean {
  return /^h[1-6]$/.test(element.tagName);
}

/** The heading that precedes footnotes for screen readers is none of the author's. */
function isFootnoteLabel(element: Element): boolean {
  return element.properties["id"] === `${prefix}footnote-label`;
}
