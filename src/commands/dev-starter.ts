/** A small definition of a file's kind that works as it stands. */
export function starterOf(path: string): string {
  return path.endsWith(".sh") ? shell : typescript;
}

const typescript = `/**
 * Greets somebody.
 * @param name - Whom to greet.
 * @param times - How often.
 * @readOnly
 */
export function greet(name: string, times = 1): string {
  return Array(times).fill(\`Hello, \${name}!\`).join(" ");
}
`;

const shell = `#!/bin/sh
# Greets somebody.
# @param name - Whom to greet.
# @readOnly
printf 'Hello, %s!\\n' "$name"
`;
