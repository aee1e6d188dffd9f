import type { ContentBlock, ReadResourceResult } from "@modelcontextprotocol/client";
import { Binary } from "./binary.tsx";
import { JsonView } from "./json-view.tsx";
import { LongText } from "./long-text.tsx";

export interface ContentProps {
  /** Reads a resource; undefined for one that this server does not offer. */
  readonly reader: (uri: string) => (() => void) | undefined;
}

/** One block of a result, by its type. The page treats its content as text, never as markup. */
export function Content({ block, reader }: ContentProps & { block: ContentBlock }) {
  switch (block.type) {
    case "text":
      return <TextContent text={block.text} />;
    case "image":
    case "audio":
      return <Binary base64={block.data} type={block.mimeType} name={block.type} />;
    case "resource":
      return <ResourceContents contents={block.resource} />;
    case "resource_link":
      return <ResourceLink link={block} read={reader(block.uri)} />;
    default:
      return <JsonView value={block} />;
  }
}

export function ResourceContents({ contents }: { contents: ReadResourceResult["contents"][number] }) {
  const { uri, mimeType } = contents;
  return (
    <section class="embedded">
      <p class="hint">
        <code>{uri}</code> {mimeType}
      </p>
      {"text" in contents ? (
        <TextContent text={contents.text} />
      ) : (
        <Binary base64={contents.blob} type={mimeType ?? "application/octet-stream"} name={uri} />
      )}
    </section>
  );
}

function TextContent({ text }: { text: string }) {
  const json = parsedJson(text);
  if (json === undefined) return <LongText text={text} label="Text" />;
  return <JsonView value={json} />;
}

/** Parses only objects and lists: a number or a word reads best as it is. */
export function parsedJson(text: string): object | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

interface Link {
  readonly uri: string;
  readonly name: string;
  readonly title?: string | undefined;
  readonly description?: string | undefined;
  readonly mimeType?: string | undefined;
}

function ResourceLink({ link, read }: { link: Link; read: (() => void) | undefined }) {
  return (
    <section class="embedded">
      <p>
        <strong>{link.title ?? link.name}</strong> <span class="hint">{link.mimeType}</span>
      </p>
      <p>
        <code>{link.uri}</code>
      </p>
      {link.description && <p class="hint pre-line">{link.description}</p>}
      {read && (
        <button type="button" class="small" onClick={read}>
          Read it
        </button>
      )}
    </section>
  );
}
