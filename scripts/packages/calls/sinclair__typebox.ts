import { Type, type Static } from "@sinclair/typebox";
import { TypeCompiler } from "@sinclair/typebox/compiler";

const Vector = Type.Object({ x: Type.Number(), y: Type.Number() });
const check = TypeCompiler.Compile(Vector);

/** Checks vectors with compiled code. */
export function vectors(): { schema: string; good: boolean; bad: boolean; first: Static<typeof Vector> } {
  const first: Static<typeof Vector> = { x: 1, y: 2 };
  return { schema: JSON.stringify(Vector), good: check.Check(first), bad: check.Check({ x: 1 }), first };
}
