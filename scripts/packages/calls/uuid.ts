import { NIL, v4 as uuidv4, v5 as uuidv5, validate } from "uuid";

/** Makes an id from a name, and a random one. */
export function ids(): { named: string; isRandomValid: boolean; nil: string } {
  return { named: uuidv5("hello.example.com", uuidv5.DNS), isRandomValid: validate(uuidv4()), nil: NIL };
}
