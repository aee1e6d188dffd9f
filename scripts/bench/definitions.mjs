import { toolNames } from "./peers/tools.mjs";

/** Sources of the servers that Berth hosts for the bench, as a person would write them. */

const echo = (name) => `/**
 * Gives back the text that it was given (${name}).
 * @param message What to give back
 */
export function ${name}(message: string): string {
  return message;
}
`;

/** One module with `count` tools, `echo` first: what the peers offer too. @param {number} count */
export function echoModule(count) {
  return toolNames(count).map(echo).join("\n");
}

/** One module with `count` tools that take nested arguments and say a good deal. @param {number} count @param {number} book from 0 */
export function invoiceModule(count, book) {
  const tool = (_, index) => `
/**
 * Adds up invoices of page ${index} in book ${book}, with tax, and tells how many there were.
 * @param invoices What to add up
 * @param rate Tax in percent
 * @readOnly
 */
export function total_${index}(
  invoices: Invoice[],
  rate = ${index % 25},
  rounding?: { mode: "up"; digits: number } | { mode: "down"; digits: number },
): { total: number; count: number } {
  return { total: invoices.reduce((sum, { amount }) => sum + amount, 0) * (1 + rate / 100), count: invoices.length };
}
`;
  return `interface Invoice {
  /** Number on the paper */
  number: string;
  /** @minimum 0 */
  amount: number;
  currency: "EUR" | "USD" | "JPY";
}
${Array.from({ length: count }, tool).join("")}`;
}

/** Modules of four usual kinds in turn, each one different from all others. @param {number} index from 0 */
export function usualModule(index) {
  return usual[index % usual.length](index);
}

const usual = [
  (n) => `interface Invoice {
  /** Number on the paper */
  number: string;
  /** @minimum 0 */
  amount: number;
  currency: "EUR" | "USD" | "JPY";
}

/**
 * Adds up invoices of batch ${n}.
 * @param invoices What to add up
 * @param rate Tax in percent
 * @readOnly
 */
export function total_${n}(invoices: Invoice[], rate = ${n % 25}): { total: number; count: number } {
  const total = invoices.reduce((sum, invoice) => sum + invoice.amount, 0) * (1 + rate / 100);
  return { total, count: invoices.length };
}

/** Tells which currencies occur. */
export function currencies_${n}(invoices: Pick<Invoice, "currency">[]): string[] {
  return [...new Set(invoices.map((invoice) => invoice.currency))];
}
`,
  (n) => `/**
 * Shortens a text for list ${n}.
 * @param text What to shorten
 * @param length The most letters to keep
 * @example { "text": "a long text", "length": 6 }
 */
export function shorten_${n}(text: string, length: number = ${40 + (n % 60)}): string {
  return text.length <= length ? text : text.slice(0, length - 1) + "…";
}

/** Counts words. */
export async function words_${n}(text: string, options?: { unique?: boolean; locale?: string }): Promise<number> {
  const words = text.toLocaleLowerCase(options?.locale).split(/\\s+/).filter(Boolean);
  return options?.unique ? new Set(words).size : words.length;
}
`,
  (n) => `type Point = { x: number; y: number };
type Shape = { kind: "circle"; centre: Point; radius: number } | { kind: "box"; from: Point; to: Point };

/**
 * The area of a shape on sheet ${n}.
 * @readOnly
 */
export function area_${n}(shape: Shape): number {
  if (shape.kind === "circle") return Math.PI * shape.radius ** 2;
  return Math.abs((shape.to.x - shape.from.x) * (shape.to.y - shape.from.y));
}

/** Moves a shape. @param by How far */
export function move_${n}(shape: Shape, by: Partial<Point>): Shape {
  const shift = ({ x, y }: Point): Point => ({ x: x + (by.x ?? 0), y: y + (by.y ?? ${n}) });
  return shape.kind === "circle"
    ? { ...shape, centre: shift(shape.centre) }
    : { ...shape, from: shift(shape.from), to: shift(shape.to) };
}
`,
  (n) => `/** How urgent a task is. */
export type Urgency = "low" | "usual" | "high";

/**
 * Sorts the tasks of board ${n}, most urgent first.
 * @param tasks Names and how urgent they are
 */
export function sort_${n}({ tasks, limit = ${10 + (n % 90)} }: {
  tasks: Record<string, Urgency>;
  /** @minimum 1 */
  limit?: number;
}): string[] {
  const order: Urgency[] = ["high", "usual", "low"];
  return Object.keys(tasks)
    .sort((left, right) => order.indexOf(tasks[left]!) - order.indexOf(tasks[right]!))
    .slice(0, limit);
}
`,
];
