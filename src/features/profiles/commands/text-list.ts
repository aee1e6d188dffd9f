import { stylesFor, type Style } from "../../../commands/styles.ts";
import type { PromptContract, ResourceContract, ResourceTemplateContract } from "../../../contract/contract.ts";
import { renderSignature } from "../../../contract/signature.ts";
import { printableLine } from "../../../lib/printable.ts";
import type { Survey } from "../../../upstream/calls/survey.ts";
import type { ListedTool } from "../../../upstream/messages/lists.ts";

/** Lists of a server for people. Names and texts are untrusted: they must not control the terminal. */
export class TextList {
  readonly #styled: Style;

  constructor(stream: { readonly isTTY?: boolean } = process.stdout, env = process.env) {
    this.#styled = stylesFor(stream, env);
  }

  survey({ tools, resources, resourceTemplates, prompts, problems }: Survey): string {
    const parts = [
      this.#part("Tools", tools, (tool) => this.tool(tool)),
      this.#part("Resources", resources, (resource) => this.#resource(resource.uri, resource)),
      this.#part("Resource templates", resourceTemplates, (one) => this.#resource(one.uriTemplate, one)),
      this.#part("Prompts", prompts, (prompt) => this.#prompt(prompt)),
      this.#part("Problems", problems, ({ severity, message }) => `  ${severity}: ${printableLine(message)}`),
    ];
    return `${parts.filter(Boolean).join("\n\n") || "It offers nothing."}\n`;
  }

  tool(tool: ListedTool): string {
    const { name, description } = tool;
    return this.#entry(name, printableLine(renderSignature(tool).slice(name.length)), description);
  }

  title(text: string): string {
    return this.#styled("bold", printableLine(text));
  }

  #part<T>(title: string, entries: readonly T[], show: (entry: T) => string): string {
    if (entries.length === 0) return "";
    return [this.title(`${title} (${entries.length})`), ...entries.map(show)].join("\n");
  }

  #resource(uri: string, { name, mimeType, description }: Omit<ResourceContract | ResourceTemplateContract, "uri">) {
    const more = [name === uri ? "" : ` ${name}`, mimeType === undefined ? "" : ` (${mimeType})`].join("");
    return this.#entry(uri, printableLine(more), description);
  }

  #prompt({ name, description, arguments: given = [] }: PromptContract): string {
    const parameters = given.map((argument) => `${argument.name}${argument.required ? "" : "?"}`);
    return this.#entry(name, printableLine(`(${parameters.join(", ")})`), description);
  }

  #entry(name: string, more: string, description: string | undefined): string {
    const shown = this.#styled("cyan", printableLine(name));
    const words = (description ?? "").split("\n").find((line) => line.trim() !== "");
    return `  ${shown}${more}${words === undefined ? "" : `\n      ${printableLine(words.trim())}`}`;
  }
}
