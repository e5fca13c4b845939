// What the fields of a subscription are called: from the upstream's description, from the complaints of its refusals, and from subscriptions
// that exist.

import type { JsonObject } from '../json/json.ts'
import type { DescribedField, Description } from '../openapi/description.ts'
import type { ProblemDetails } from '../upstream/http/problem-details.ts'

export type FieldNames = {
  readonly definition: string
  readonly address: string
  /** What deliveries are signed with; null: there is no such field. */
  readonly secret: string | null
}

const aboutAddress = /url|uri|callback|endpoint|address/i
const aboutDefinition = /definition/i
const aboutSecret = /secret|signing_?key/i

const subscriptionPath = '/api/webhooks/subscription'

/** Null when the description does not say what a subscription is made of. */
export function describedNames(contract: Description | null): FieldNames | null {
  const operation = contract?.operations.find(
    (one) => one.method.toUpperCase() === 'POST' && one.path.toLowerCase() === subscriptionPath,
  )
  const fields = contract?.types[operation?.takes ?? '']?.fields ?? []
  const named = (pattern: RegExp) =>
    fields.filter(({ name }) => pattern.test(name)).toSorted(likelierFirst)[0]
  const [definition, address] = [named(aboutDefinition), named(aboutAddress)]
  if (!definition || !address) return null
  return { definition: definition.name, address: address.name, secret: named(aboutSecret)?.name ?? null }
}

const likelierFirst = (one: DescribedField, other: DescribedField): number =>
  Number(other.isRequired) - Number(one.isRequired) || Number(isUri(other)) - Number(isUri(one))
const isUri = ({ says }: DescribedField): boolean => /ur[il]/i.test(says)

/** Names as existing subscriptions spell them; if there is none, in the style of the definitions. */
export function seenNames(known: readonly JsonObject[], definitionKey: string): FieldNames {
  const names = [...new Set(known.flatMap((one) => Object.keys(one)))]
  const isCamel = /^[a-z]/.test(definitionKey)
  const usual = isCamel ? 'webhookDefinitionId' : 'WebhookDefinitionId'
  const definition =
    names.find((name) => name.toLowerCase() === definitionKey.toLowerCase() && aboutDefinition.test(name)) ??
    names.find((name) => aboutDefinition.test(name)) ??
    (aboutDefinition.test(definitionKey) ? definitionKey : usual)
  return {
    definition,
    address: names.find((name) => aboutAddress.test(name)) ?? (isCamel ? 'url' : 'Url'),
    secret: names.find((name) => aboutSecret.test(name)) ?? null,
  }
}

/** What a refusal says is missing or unknown; null when it says nothing of these fields. */
export function correctedNames(names: FieldNames, said: ProblemDetails | null): FieldNames | null {
  // The fields of a JSON body are named by a path.
  const complaints = (said?.errors ?? []).map(([path, message]) => {
    return { field: path.replace(/^\$\./, ''), isMissing: /required|missing/i.test(message) }
  })
  const missing = complaints.flatMap(({ field, isMissing }) => (isMissing ? [field] : []))
  const isNews = (field: string, known: string) => field.toLowerCase() !== known.toLowerCase()
  const address = missing.find((field) => aboutAddress.test(field) && isNews(field, names.address))
  const definition = missing.find((field) => aboutDefinition.test(field) && isNews(field, names.definition))
  const { secret } = names
  const hasNoSecret = secret !== null && complaints.some(({ field }) => !isNews(field, secret))
  if (!address && !definition && !hasNoSecret) return null
  return {
    definition: definition ?? names.definition,
    address: address ?? names.address,
    secret: hasNoSecret ? null : secret,
  }
}
