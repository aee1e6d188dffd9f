import type { CallToolResult, GetPromptResult } from "@modelcontextprotocol/client";
import type { Outcome } from "../run.ts";
import { Content, parsedJson, ResourceContents, type ContentProps } from "./content.tsx";
import { JsonView } from "./json-view.tsx";

/** The outcome of a request, by its kind. */
export function OutcomeView({ outcome, reader }: ContentProps & { outcome: Outcome }) {
  switch (outcome.kind) {
    case "tool":
      return <ToolResult result={outcome.result} reader={reader} />;
    case "resource":
      return (
        <>
          {outcome.result.contents.map((contents, index) => (
            <ResourceContents key={index} contents={contents} />
          ))}
        </>
      );
    case "prompt":
      return <PromptResult result={outcome.result} reader={reader} />;
    case "failed":
      return (
        <div class="notice bad">
          <p>
            <strong>{outcome.error.title}</strong>
          </p>
          <p class="pre-line">{outcome.error.message}</p>
          {outcome.error.data !== undefined && <JsonView value={outcome.error.data} />}
        </div>
      );
    case "cancelled":
      return <p class="notice warn">You cancelled this call. The server was told to stop.</p>;
  }
}

function ToolResult({ result, reader }: ContentProps & { result: CallToolResult }) {
  const { content, structuredContent, _meta } = result;
  const texts = content.map((block) => (block.type === "text" ? block.text : undefined));
  // Servers also send structured content as text, for clients that know no other. It is shown once: a single value as
  // the text, anything else as the tree.
  const isSaid = isScalar(structuredContent) && texts.includes(String(structuredContent));
  const repeats = JSON.stringify(structuredContent);
  const blocks = content.filter(
    (_block, index) => repeats === undefined || JSON.stringify(parsedJson(texts[index] ?? "")) !== repeats,
  );
  return (
    <div class="result">
      {structuredContent !== undefined && !isSaid && (
        <section>
          <h3>Structured content</h3>
          <JsonView value={structuredContent} />
        </section>
      )}
      {blocks.map((block, index) => (
        <Content key={index} block={block} reader={reader} />
      ))}
      {content.length === 0 && structuredContent === undefined && <p class="hint">The result is empty.</p>}
      {_meta && Object.keys(_meta).length > 0 && (
        <details class="more">
          <summary>_meta</summary>
          <JsonView value={_meta} />
        </details>
      )}
    </div>
  );
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

function PromptResult({ result, reader }: ContentProps & { result: GetPromptResult }) {
  return (
    <>
      {result.description && <p class="hint">{result.description}</p>}
      <ol class="turns">
        {result.messages.map(({ role, content }, index) => (
          <li key={index}>
            <p class="badge accent">{role}</p>
            <Content block={content} reader={reader} />
          </li>
        ))}
      </ol>
    </>
  );
}
