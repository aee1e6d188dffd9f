import { gql, GraphQLClient } from "graphql-request";

const document = gql`
  query company($name: String!) {
    company(name: $name) {
      ceo
    }
  }
`;

/** Sends a query with a variable. */
export async function company(at: string): Promise<unknown> {
  return new GraphQLClient(`http://${at}/graphql`).request(document, { name: "Example" });
}
