import { setTimeout as sleep } from "node:timers/promises";
import type { ToolContract } from "../../contract/contract.ts";
import { renderTools } from "./parts/offers.ts";
import type { Pages } from "./pages.ts";

/** By then the start is over; a page opened at once takes no longer than without all this. */
const BEGIN_MS = 500;
/** The pauses between pieces of a few milliseconds: normally, and while others keep the thread busy. */
const PAUSE_MS = 10;
const BUSY_PAUSE_MS = 1_000;
const BUSY_FROM = 0.5;
/** More rounds hardly make the first page any faster. */
const ROUNDS = 40;

/**
 * Code runs several times slower at first, and on the page of a server with many tools most of that code shows tools.
 * So an example is rendered repeatedly in idle moments after the start, for nobody.
 */
export async function warmUp(
  pages: Pick<Pages, "fragment" | "html">,
  { beginMs = BEGIN_MS, rounds = ROUNDS } = {},
): Promise<void> {
  await pause(beginMs);
  let before = performance.eventLoopUtilization();
  const giveWay = async (): Promise<void> => {
    do {
      const { utilization } = performance.eventLoopUtilization(before);
      before = performance.eventLoopUtilization();
      await pause(utilization < BUSY_FROM ? PAUSE_MS : BUSY_PAUSE_MS);
    } while (performance.eventLoopUtilization(before).utilization >= BUSY_FROM);
  };
  for (let round = 0; round < rounds; round++) {
    await renderTools(pages, EXAMPLE, giveWay);
    await giveWay();
  }
}

function pause(ms: number): Promise<void> {
  return sleep(ms, undefined, { ref: false });
}

/** Contains every common kind of schema, as code that has seen only one kind is slow again at the next. */
const EXAMPLE: Parameters<typeof renderTools>[1] = {
  tools: [
    {
      name: "total",
      description: "Adds up invoices.",
      inputSchema: objectOf({
        invoices: {
          type: "array",
          items: objectOf({
            number: { type: "string", description: "As it is printed on the paper" },
            amount: { type: "number", minimum: 0 },
            currency: { type: "string", enum: ["EUR", "USD"] },
            paid: { type: "boolean", default: false },
          }),
          minItems: 1,
        },
        rate: { type: "number", description: "Tax in <percent> & more", default: 7 },
      }),
      outputSchema: objectOf({ total: { type: "number" }, count: { type: "integer" } }),
      annotations: { readOnlyHint: true, idempotentHint: true },
    },
    {
      name: "shorten",
      title: "Shorten a text",
      description: "Shortens a text.\n\nWords stay whole.",
      inputSchema: objectOf({ text: { type: "string", maxLength: 400, pattern: "^[a-z ]+$", examples: ["a b"] } }),
      outputSchema: { type: "string" },
      annotations: { destructiveHint: true, openWorldHint: true },
    },
    { name: "now", inputSchema: { type: "object" }, outputSchema: { type: "string", format: "date-time" } },
    {
      name: "area",
      description: "The area of a shape.",
      inputSchema: objectOf({
        shape: {
          anyOf: [
            objectOf({ kind: { const: "circle" }, radius: { type: "number" } }),
            objectOf({ kind: { const: "box" }, sides: { type: "array", items: { type: "number" } } }),
          ],
        },
        labels: { type: "object", additionalProperties: { type: ["string", "null"] } },
      }),
    },
  ] satisfies ToolContract[],
};

function objectOf(properties: object): { type: "object"; properties: object; required: string[] } {
  return { type: "object", properties, required: Object.keys(properties).slice(0, 1) };
}
