import { assert, create, number, object, string, StructError, trimmed, type Infer } from "superstruct";

const Article = object({ id: number(), title: trimmed(string()) });

/** Makes an article, and says what is wrong with another. */
export function articles(): { made: Infer<typeof Article>; wrong: string } {
  const made = create({ id: 34, title: " Hello World " }, Article);
  try {
    assert({ id: "34", title: "Hello" }, Article);
    return { made, wrong: "" };
  } catch (error) {
    return { made, wrong: error instanceof StructError ? error.message : String(error) };
  }
}
