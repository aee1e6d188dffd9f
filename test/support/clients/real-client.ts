import { createRequire } from "node:module";
import { join } from "node:path";
import { packageRoot } from "../../../src/config.ts";

interface ToolAnswer {
  /** The text blocks, one below the other. */
  readonly text: string;
  readonly isError: boolean;
}

export const clientsFolder = join(packageRoot, "test", "clients");

const fromClients = createRequire(join(clientsFolder, "package.json"));

/** The file that `specifier` stands for in `test/clients/node_modules`. Throws when that is not installed. */
export function resolveClient(specifier: string): string {
  return fromClients.resolve(specifier);
}

/** Reads any client's result of `tools/call`, whichever revision it speaks. */
export function toAnswer(result: unknown): ToolAnswer {
  const { content = [], isError = false } = result as {
    content?: readonly { type: string; text?: string }[];
    isError?: boolean;
  };
  const texts = content.flatMap((block) => (block.type === "text" ? [block.text ?? ""] : []));
  return { text: texts.join("\n"), isError };
}
