// The script of the pages: it shows what the worker sends, draws the plots, and says whether it is in touch. Pages are complete
// without it.

const connection = document.querySelector('[data-connection]')
const plots = new Map()
let source = null

function say(state) {
  if (connection.textContent === state) return
  connection.textContent = state
  connection.dataset.connection = state
}

function show({ cells, rates, isWhole }) {
  if (isWhole)
    for (const place of document.querySelectorAll('[data-live]'))
      if (!(place.dataset.live in cells)) place.innerHTML = ''
  for (const [key, markup] of Object.entries(cells))
    for (const place of document.querySelectorAll(`[data-live="${CSS.escape(key)}"]`))
      place.innerHTML = markup
  for (const [stream, plot] of plots) plot.setData(series(rates, rates.streams[stream] ?? []))
  say('live')
}

function listen() {
  source?.close()
  if (document.visibilityState !== 'visible') return
  source = new EventSource('/events')
  source.addEventListener('update', ({ data }) => show(JSON.parse(data)))
  source.addEventListener('away', () => say('waiting for the database'))
  source.addEventListener('error', () => {
    say('reconnecting')
    // Refused: the browser does not come back by itself.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5_000)
  })
}

// A browser keeps few connections to one place; pages that nobody sees leave them to others.
document.addEventListener('visibilitychange', listen)

function series({ from, bucketMs, buckets }, values) {
  const times = Array.from({ length: buckets }, (_, index) => (from + index * bucketMs) / 1_000)
  return [times, times.map((_, index) => values[index] ?? 0)]
}

function draw(place) {
  const { plot: stream, from, bucketMs, buckets, rates } = place.dataset
  const values = rates ? rates.split(',').map(Number) : []
  const colours = () => getComputedStyle(place)
  const size = () => ({ width: place.clientWidth, height: place.clientHeight })
  const box = size()
  place.replaceChildren()
  const plot = new uPlot(
    {
      ...box,
      legend: { show: false },
      cursor: { show: false },
      padding: [2, 0, 2, 0],
      axes: [{ show: false }, { show: false }],
      scales: { x: { time: true }, y: { range: (_plot, _least, most) => [0, Math.max(1, most)] } },
      series: [
        {},
        {
          stroke: () => colours().getPropertyValue('--accent'),
          fill: () => colours().getPropertyValue('--accent-soft'),
          width: 1.5,
          points: { show: false },
        },
      ],
    },
    series({ from: Number(from), bucketMs: Number(bucketMs), buckets: Number(buckets) }, values),
    place,
  )
  plots.set(stream, plot)
  new ResizeObserver(() => plot.setSize(size())).observe(place)
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => plot.redraw())
}

for (const place of document.querySelectorAll('[data-plot]')) draw(place)
listen()
