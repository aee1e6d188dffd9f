import { z } from "zod";

const Person = z.object({ name: z.string().min(1), age: z.coerce.number().int() });

/** Reads a person, whose age comes as a text. */
export function person(): z.infer<typeof Person> {
  return Person.parse({ name: "Ada", age: "36" });
}
