// What a JSON value is in this program. Numbers that a JavaScript number cannot hold to the last digit are kept as
// their source text (JSON.rawJSON), so that JSON.stringify writes them back exactly (P4).

declare global {
  interface JSON {
    rawJSON(text: string): ExactNumber
    isRawJSON(value: unknown): value is ExactNumber
  }
}

// An interface and no alias: TypeScript would take an alias for one of the objects, which may have any fields.
export interface ExactNumber {
  readonly rawJSON: string
}
export type JsonArray = readonly Json[]
export type JsonObject = {
  readonly [field: string]: Json
  /**
   * Earlier values of fields that the object carried twice; the last one is the field's value. Each field has an array of
   * them, oldest first. An object also holds those of the objects inside it, named by their path, e.g. `Customer.Name`.
   */
  readonly [repeatedFields]?: JsonObject
}
export type Json = string | number | boolean | null | ExactNumber | JsonArray | JsonObject

/** The value of a field that the object itself has: every object also has a `constructor`, for example, that nobody sent. */
export const ownValue = <Value>(object: Readonly<Record<string, Value>>, name: string): Value | undefined =>
  Object.hasOwn(object, name) ? object[name] : undefined

export const repeatedFields: unique symbol = Symbol('repeated fields')
