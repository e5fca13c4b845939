// Values as YAML that every reader takes for the same: each text in double quotes, whatever it holds. dbt reads texts as templates, so nothing
// in them may look like one.

export type Yaml =
  | string
  | number
  | boolean
  | readonly Yaml[]
  /** What is undefined is left out. */
  | { readonly [key: string]: Yaml | undefined }

export const asYaml = (value: Yaml): string => `${linesOf(value).join('\n')}\n`

function linesOf(value: Yaml): readonly string[] {
  if (typeof value === 'string') return [quotedText(value)]
  if (typeof value !== 'object') return [String(value)]
  if (isList(value)) return value.length === 0 ? ['[]'] : value.flatMap((one) => hung('- ', linesOf(one)))
  const entries = Object.entries(value).flatMap(([key, one]) =>
    one === undefined ? [] : [[/^[a-z_][a-z0-9_]*$/i.test(key) ? key : quotedText(key), one] as const],
  )
  if (entries.length === 0) return ['{}']
  return entries.flatMap(([key, one]) => {
    const [first = '', ...rest] = linesOf(one)
    const isNested = typeof one === 'object' && !/^(?:\[\]|\{\})$/.test(first)
    return isNested ? [`${key}:`, ...hung('  ', [first, ...rest])] : [`${key}: ${first}`]
  })
}

const isList = (value: object): value is readonly Yaml[] => Array.isArray(value)

const hung = (mark: string, [first = '', ...rest]: readonly string[]): readonly string[] => [
  `${mark}${first}`,
  ...rest.map((line) => `  ${line}`),
]

/** JSON's strings are YAML's, but for some characters that YAML takes for line ends or not at all. */
const quotedText = (value: string): string =>
  JSON.stringify(value.replaceAll(/\{(?=[{%#])/g, '{ ').replaceAll(/[}%#](?=\})/g, '$& ')).replaceAll(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
