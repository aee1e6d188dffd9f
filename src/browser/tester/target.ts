/** The subject that the tester shows, as in the page's address: `#tool=echo`, `#resource=note://1`, `#prompt=greet`. */
export interface Target {
  readonly kind: Kind;
  /** Undefined for the first one. */
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
