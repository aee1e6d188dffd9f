import { number, object, string, type InferType } from "yup";

const user = object({ name: string().required(), age: number().required().positive().integer() });

/** Casts a user. */
export async function cast(): Promise<InferType<typeof user>> {
  return user.validate({ name: "jimmy", age: "24" });
}
