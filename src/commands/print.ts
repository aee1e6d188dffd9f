import { printableJson, printableText } from "../lib/printable.ts";

/**
 * Console output is for people, and may quote tenants, callers and upstreams: none of these may
 * control the terminal. Data for programs is written to standard output as it is, and JSON with escapes (`printJson`).
 */
export function makeConsolePrintable(): void {
  for (const method of ["log", "info", "warn", "error"] as const) {
    const print = console[method].bind(console);
    console[method] = (...parts: unknown[]) =>
      print(...parts.map((part) => (typeof part === "string" ? printableText(part) : part)));
  }
}

/** On a line of its own, or indented. */
export function printJson(value: unknown, indent?: number): void {
  process.stdout.write(`${printableJson(JSON.stringify(value, undefined, indent))}\n`);
}
