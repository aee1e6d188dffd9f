/** What the tester shows, as the page's address says it: `#tool=echo`, `#resource=note://1`, `#prompt=greet`. */
export interface Target {
  readonly kind: Kind;
  /** Undefined for the first one there is. */
  readonly name?: string;
}

export type Kind = "tool" | "resource" | "prompt";

export const KINDS: readonly Kind[] = ["tool", "resource", "prompt"];

export function targetOf(hash: string): Target | undefined {
  const [, kind, name] = /^#(\w+)=(.+)$/.exec(hash) ?? [];
  if (name === undefined || !KINDS.includes(kind as Kind)) return undefined;
  try {
    return { kind: kind as Kind, name: decodeURIComponent(name) };
  } catch {
    return undefined;
  }
}

export function hashOf({ kind, name }: Target): string {
  return name === undefined ? "" : `#${kind}=${encodeURIComponent(name)}`;
}
