/** A text that a server's page offers for copying, as a person finds it there. */
export interface CopiedText {
  readonly kind: "command" | "file" | "link";
  readonly text: string;
  /** The file that it belongs into. */
  readonly file: string | undefined;
}

const PANEL = /<div class="tab-panel">\n(.*?)\n<\/div>\n(?=<input |<\/fieldset>)/gs;
const LINK = /^<p><a class="button" href="([^"]*)">/;
const STEP =
  /<p>[^<]*(?:<code>([^<]*)<\/code>)?:<\/p>\n<div class="snippet"><pre data-copy="[^"]*"><code>([^<]*)<\/code><\/pre><\/div>/g;

/** The texts by client id, in the page's order. Throws for a page without any. */
export function copiedTexts(html: string): Map<string, CopiedText[]> {
  const ids = [...html.matchAll(/<input type="radio" name="client" id="client-([^"]*)"/g)].map(([, id]) => id!);
  const panels = [...html.matchAll(PANEL)].map(([, panel]) => linkIn(panel!).concat(stepsIn(panel!)));
  if (ids.length === 0 || ids.length !== panels.length || panels.some((texts) => texts.length === 0)) {
    throw new Error(`the page has texts for ${panels.length} of its ${ids.length} clients`);
  }
  return new Map(ids.map((id, index) => [id, panels[index]!]));
}

function linkIn(panel: string): CopiedText[] {
  const link = LINK.exec(panel)?.[1];
  return link === undefined ? [] : [{ kind: "link", text: unescaped(link), file: undefined }];
}

function stepsIn(panel: string): CopiedText[] {
  return [...panel.matchAll(STEP)].map(([, file, text]) => ({
    kind: file === undefined ? "command" : "file",
    text: unescaped(text!),
    file: file && unescaped(file),
  }));
}

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"' };

function unescaped(html: string): string {
  return html.replace(/&(?:#x([0-9A-Fa-f]+)|([a-z]+));/g, (_, code: string | undefined, name: string) =>
    code === undefined ? ENTITIES[name]! : String.fromCodePoint(Number.parseInt(code, 16)),
  );
}
