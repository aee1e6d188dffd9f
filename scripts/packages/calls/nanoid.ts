import { customAlphabet, nanoid } from "nanoid";

/** The lengths of new ids. */
export function lengths(): number[] {
  return [nanoid().length, customAlphabet("1234567890abcdef", 10)().length];
}
