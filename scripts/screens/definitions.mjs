/** The definitions that the pictures show: such as people write. */

export const LIBRARY = `import type { ToolContext } from "berth";

/** A book on our shelves. */
interface Book {
  /** @pattern ^[0-9]{13}$ */
  isbn: string;
  title: string;
  author: string;
  /** When it is back, in ISO 8601; absent if it is here. */
  dueOn?: string;
}

const BOOKS: Book[] = [
  { isbn: "9780141439518", title: "Pride and Prejudice", author: "Jane Austen" },
  { isbn: "9780140449136", title: "Crime and Punishment", author: "Fyodor Dostoevsky", dueOn: "2026-12-04" },
  { isbn: "9780156027328", title: "Invisible Cities", author: "Italo Calvino" },
];

/**
 * Finds books by a part of their title or author.
 *
 * @param query - Words of the title, or of the author's name.
 * @param limit - The most books to give.
 * @minimum 1
 * @maximum 50
 * @param shelf - Where to look.
 * @readOnly
 * @example { "query": "cities" }
 */
export function search(query: string, limit = 10, shelf: "fiction" | "science" | "all" = "all"): Book[] {
  const found = BOOKS.filter(({ title, author }) => \`\${title} \${author}\`.toLowerCase().includes(query.toLowerCase()));
  return found.slice(0, limit);
}

/**
 * Borrows a book for somebody.
 *
 * @param isbn - Thirteen digits.
 * @param reader - Who borrows it.
 * @param weeks - How long.
 * @destructive
 */
export async function borrow(isbn: string, reader: string, weeks = 4, { state, log }: ToolContext): Promise<string> {
  const book = BOOKS.find((each) => each.isbn === isbn);
  if (!book) throw new RangeError(\`No book has the ISBN \${isbn}\`);
  await state.set(\`loans/\${isbn}\`, { reader, weeks, title: book.title });
  log.info(\`\${reader} borrows \${book.title}\`);
  return \`\${book.title} is yours for \${weeks} weeks.\`;
}

/** All books. @resource library://books application/json */
export function books(): Book[] {
  return BOOKS;
}

/** One book. @resource library://books/{isbn} application/json */
export function book(isbn: string): Book | undefined {
  return BOOKS.find((each) => each.isbn === isbn);
}

/**
 * Recommends a book for a mood.
 * @prompt
 * @param mood - Such as "rainy Sunday".
 */
export function recommend(mood: string): string {
  return \`Recommend one of our books for this mood: \${mood}\`;
}
`;

export const ORDERS = `/** An order of a customer. */
interface Order {
  id: number;
  customer: string;
  total: number;
}

const ORDERS: Order[] = [{ id: 1041, customer: "Ada Lovelace", total: 99.5 }];

/**
 * The orders of a customer, the newest first.
 * @param customer - Their name.
 * @readOnly
 */
export function listOrders(customer: string): Order[] {
  return ORDERS.filter((order) => order.customer === customer);
}

/**
 * Cancels an order.
 * @param id - The number of the order.
 * @destructive
 */
export function cancelOrder(id: number): string {
  const order = ORDERS.find((each) => each.id === id);
  if (!order) throw new Error(\`There is no order \${id}\`);
  return \`Order \${id} is cancelled.\`;
}
`;

export const BROKEN = `/** Prices in other currencies. */
export function convert(amount: number, currency: string): number {
  return amount * rates[currency;
}
`;

export const PARTLY = `/** How many words a text has. */
export function words(text: string): number {
  return text.split(/\\s+/).filter(Boolean).length;
}

/** Sorts with any comparison. */
export function sortBy(compare: (a: string, b: string) => number): string[] {
  return [];
}
`;

export const WEATHER = `/**
 * The weather, from a service that wants a key.
 * @secret WEATHER_KEY to ask the service
 * @network api.weather.example
 */

import type { ToolContext } from "berth";

/**
 * The forecast of a city.
 * @param city - Such as Oslo.
 * @readOnly
 * @openWorld
 */
export async function forecast(city: string, { secret, fetch }: ToolContext): Promise<string> {
  const key = await secret("WEATHER_KEY");
  const response = await fetch(\`https://api.weather.example/\${encodeURIComponent(city)}?key=\${key}\`);
  return response.text();
}
`;

export const MAIL = `import type { ToolContext } from "berth";

/**
 * Sends a mail to a customer.
 * @param to - The address.
 * @format email
 * @param subject - One line.
 * @param text - The message.
 */
export async function send(to: string, subject: string, text: string, { secret }: ToolContext): Promise<string> {
  if (!(await secret("SMTP_PASSWORD"))) throw new Error("The secret SMTP_PASSWORD is not set");
  return \`Sent "\${subject}" to \${to}.\`;
}
`;

export const PACKAGED = `import { slug } from "slugs";

/** A text as a part of an address. */
export function slugOf(text: string): string {
  return slug(text);
}
`;

export const SMALL = `/** Tells that it works. */
export function ping(): string {
  return "pong";
}
`;

/** Names of a company's many servers. */
export const MANY = [
  "billing",
  "crm",
  "deploy",
  "docs",
  "hr",
  "inventory",
  "metrics",
  "search",
  "shop",
  "tickets",
].flatMap((team) => ["archive", "export", "reports", "staging", "tools", "webhooks"].map((part) => `${team}-${part}`));
