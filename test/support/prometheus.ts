// As much of Prometheus as the alert rules need: reads the text of /metrics and evaluates an expression on it. `rate(x[…])` counts as x,
// because only one moment is looked at: rules compare rates with rates.

export type Sample = {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}
type Vector = readonly Sample[]

export function samplesOf(text: string): Vector {
  return text.split('\n').flatMap((line) => {
    const [, name = '', list = '', value = ''] = /^([a-z_:]\w*)(?:\{(.*)\})? (\S+)/i.exec(line) ?? []
    return name === '' ? [] : [{ name, labels: labelsIn(list), value: Number(value) }]
  })
}

const labelsIn = (list: string): Record<string, string> =>
  Object.fromEntries(
    [...list.matchAll(/(\w+)="([^"]*)"/g)].map(([, label = '', value = '']) => [label, value]),
  )

/** The samples for which an alert with this expression would be raised. */
export function evaluate(expression: string, samples: Vector): Vector {
  const tokens =
    expression.match(/"[^"]*"|\[[^\]]*\]|[a-z_]\w*|\d+(?:\.\d+)?|=~|!~|==|!=|>=|<=|[(){},=><*]/gi) ?? []
  let at = 0
  const peek = () => tokens[at]
  const take = (wanted?: string): string => {
    const token = tokens[at++] ?? ''
    if (wanted !== undefined && token !== wanted)
      throw new Error(`${wanted} was expected, not ${token}, in ${expression}`)
    return token
  }
  const names = (): string[] => {
    const list: string[] = []
    take('(')
    while (peek() !== ')') {
      list.push(take())
      if (peek() === ',') take()
    }
    take(')')
    return list
  }
  const namesAfter = (word: string): string[] | null => {
    if (peek() !== word) return null
    take(word)
    return names()
  }
  const inBrackets = (): Vector | number => {
    take('(')
    const value = comparison()
    take(')')
    return value
  }

  function selector(name: string): Vector {
    let found = samples.filter((sample) => sample.name === name)
    if (peek() === '{') {
      take('{')
      while (peek() !== '}') {
        const [label, operator, value] = [take(), take(), take().slice(1, -1)]
        const isLike = (text: string) =>
          operator.endsWith('~') ? new RegExp(`^(?:${value})$`).test(text) : text === value
        found = found.filter(({ labels }) => isLike(labels[label] ?? '') !== operator.startsWith('!'))
        if (peek() === ',') take()
      }
      take('}')
    }
    if (peek()?.startsWith('[')) take()
    return found
  }

  function term(): Vector | number {
    const token = peek() ?? ''
    if (token === '(') return inBrackets()
    take()
    if (/^\d/.test(token)) return Number(token)
    if (token === 'rate') return inBrackets()
    if (token === 'absent')
      return vectorOf(inBrackets()).length > 0 ? [] : [{ name: '', labels: {}, value: 1 }]
    if (!['max', 'min', 'sum'].includes(token)) return selector(token)
    const by = namesAfter('by') ?? []
    return aggregate(token, by, vectorOf(inBrackets()))
  }

  function product(): Vector | number {
    let left = term()
    while (peek() === '*') {
      take()
      left = combine(left, term(), (a, b) => a * b)
    }
    return left
  }

  function comparison(): Vector | number {
    let left = product()
    for (;;) {
      const operator = peek() ?? ''
      if (operator === 'unless') {
        take()
        const on = namesAfter('on')
        const others = new Set(vectorOf(comparisonOnce()).map((one) => keyOf(one, on)))
        left = vectorOf(left).filter((one) => !others.has(keyOf(one, on)))
      } else if (operator in compare) {
        take()
        left = filterBy(left, product(), compare[operator] ?? (() => false))
      } else return left
    }
  }
  /** Binds more strongly than `unless`. */
  function comparisonOnce(): Vector | number {
    const left = product()
    const operator = peek() ?? ''
    if (!(operator in compare)) return left
    take()
    return filterBy(left, product(), compare[operator] ?? (() => false))
  }

  const result = vectorOf(comparison())
  if (at < tokens.length) throw new Error(`${peek()} was not understood, in ${expression}`)
  return result
}

const compare: Readonly<Record<string, (a: number, b: number) => boolean>> = {
  '==': (a, b) => a === b,
  '!=': (a, b) => a !== b,
  '>': (a, b) => a > b,
  '<': (a, b) => a < b,
  '>=': (a, b) => a >= b,
  '<=': (a, b) => a <= b,
}

function vectorOf(value: Vector | number): Vector {
  if (typeof value === 'number') throw new Error('a number stands where samples belong')
  return value
}

const keyOf = ({ labels }: Pick<Sample, 'labels'>, on: readonly string[] | null): string =>
  JSON.stringify((on ?? Object.keys(labels).toSorted()).map((label) => [label, labels[label] ?? '']))

function aggregate(how: string, by: readonly string[], given: Vector): Vector {
  const groups = Map.groupBy(given, (sample) => keyOf(sample, by))
  return [...groups.values()].map((group) => {
    const values = group.map(({ value }) => value)
    const value =
      how === 'sum'
        ? values.reduce((sum, one) => sum + one, 0)
        : how === 'max'
          ? Math.max(...values)
          : Math.min(...values)
    const labels = Object.fromEntries(by.map((label) => [label, group[0]?.labels[label] ?? '']))
    return { name: '', labels, value }
  })
}

function combine(
  left: Vector | number,
  right: Vector | number,
  work: (a: number, b: number) => number,
): Vector | number {
  if (typeof left === 'number' && typeof right === 'number') return work(left, right)
  if (typeof left === 'number')
    return vectorOf(right).map((one) => ({ ...one, value: work(left, one.value) }))
  if (typeof right === 'number') return left.map((one) => ({ ...one, value: work(one.value, right) }))
  return left.flatMap((one) => {
    const other = right.find((candidate) => keyOf(candidate, null) === keyOf(one, null))
    return other ? [{ ...one, value: work(one.value, other.value) }] : []
  })
}

function filterBy(
  left: Vector | number,
  right: Vector | number,
  holds: (a: number, b: number) => boolean,
): Vector {
  return vectorOf(left).filter((one) => {
    if (typeof right === 'number') return holds(one.value, right)
    const other = right.find((candidate) => keyOf(candidate, null) === keyOf(one, null))
    return other !== undefined && holds(one.value, other.value)
  })
}
