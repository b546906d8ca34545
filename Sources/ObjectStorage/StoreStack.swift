package import Basics
package import Logging

/// The one place that stacks the wrappers of a provider's store.
package enum StoreStack {
    package struct Options: Sendable {
        package var retry = RetryPolicy()
        /// Bounds the requests in flight.
        package var throttle: Throttle
        package var limits = MountLimits()
        /// The time of which the bucket is shown; nil is the present.
        package var asOf: Timestamp?

        package init(throttle: Throttle = Throttle(sends: 16, fetches: 32, others: 64)) { self.throttle = throttle }
    }

    /// From the provider outward: measured per try, bounded per try, retried, of another time, below a prefix; where listings lag behind, an
    /// `OverlaidStore` on top.
    package static func make(
        _ provider: any ObjectStore, prefix: ByteString, options: Options, meter: RequestMeter, time: any TimeSource,
        logger: Logger
    ) -> any ObjectStore {
        let measured = InterceptedStore(provider, Measuring(meter, time: time, logger: logger))
        let bounded = InterceptedStore(measured, options.throttle)
        let retried = InterceptedStore(
            bounded, Retrying(options.retry, time: time, meter: meter), limits: options.limits)
        let shown: any ObjectStore = options.asOf.map { PastStore(retried, .at($0)) } ?? retried
        let below: any ObjectStore = prefix.isEmpty ? shown : PrefixedStore(shown, prefix: prefix)
        // A listing of the past has no recent writes to lag behind.
        if options.asOf != nil { return below }
        let lag = provider.capabilities.listingLag
        return lag > .zero ? OverlaidStore(below, RecentWrites(lag: lag, time: time)) : below
    }
}
