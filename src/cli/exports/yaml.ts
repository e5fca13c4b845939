// Values as YAML that every reader takes for the same: each text in double quotes, whatever it holds. dbt reads texts as templates, so nothing
// in them may look like one.

import { stringify } from 'yaml'

export type Yaml =
  | string
  | number
  | boolean
  | readonly Yaml[]
  /** What is undefined is left out. */
  | { readonly [key: string]: Yaml | undefined }

/** What readers take for line ends, or not at all, is escaped; so it only ever stands in quotes. */
export const asYaml = (value: Yaml): string =>
  stringify(value, (_key, one) => (typeof one === 'string' ? noTemplate(one) : one), {
    defaultStringType: 'QUOTE_DOUBLE',
    defaultKeyType: 'PLAIN',
    doubleQuotedAsJSON: true,
    lineWidth: 0,
    aliasDuplicateObjects: false,
  }).replaceAll(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

const noTemplate = (text: string): string =>
  text.replaceAll(/\{(?=[{%#])/g, '{ ').replaceAll(/[}%#](?=\})/g, '$& ')
