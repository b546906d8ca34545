import Basics
import HTTP
import ObjectStorage
import Synchronization

/// What an answer shows to be wrong with a request, and its correction.
extension FamilyStore {
    /// A correction that was tried for a request. Short-lived credentials may expire again while another correction is tried.
    struct Correction: Hashable {
        private let kind: ObjectStoreError.Kind
        private let ended: Credentials?

        /// Most corrections of a request.
        static let most = 6

        init(_ kind: ObjectStoreError.Kind, _ credentials: Credentials?) {
            (self.kind, ended) = (kind, credentials.flatMap { $0.sessionToken == nil ? nil : $0 })
        }
    }

    /// Learns from an answer what the next try needs; false when there is nothing to learn. Throws a transient error that keeps
    /// the store from showing the cause.
    func correct(
        _ error: ObjectStoreError, _ response: HTTPResponse, _ document: FamilyErrors.Document?,
        signedFor used: String?, with current: Credentials?
    ) async throws(ObjectStoreError) -> Bool {
        switch error.kind {
        case .wrongRegion:
            if settings.followsRedirects, learnEndpoint(response.headers["Location"]) { return true }
            return learnRegion(response.headers[profile.header("bucket-region")] ?? document?.region, not: used)
        case .clockSkew: return learnClock(response, tolerance: .zero)
        case .accessDenied where document == nil:
            // A HEAD answer does not say whether the clock or expired credentials are the cause; servers allow 15 minutes.
            if learnClock(response, tolerance: .seconds(14 * 60)) { return true }
            return await renew(current)
        case .accessDenied: return await renew(current)
        case .credentialsRejected, .credentialsExpired: return try await credentials.replace(current, after: .named)
        case .invalidRequest where response.status == 400 && document == nil:
            // A HEAD answer has no document, but a bucket of another region shows it in a header, or in the answer to a listing.
            // The same shows expired credentials, even if they were renewed just before.
            if learnRegion(response.headers[profile.header("bucket-region")], not: used) { return true }
            guard error.operation == .head else { return false }
            if profile.followsRegion || current?.sessionToken != nil {
                do throws(ObjectStoreError) {
                    try await checkAccess(below: error.key?.bytes ?? "")
                    return true
                } catch {
                    if error.isRetryable { throw error }
                    if await renew(current) { return true }
                    // This is the cause, and its message says so.
                    if error.kind == .credentialsExpired || error.kind == .clockSkew { throw error }
                }
                return false
            }
            return await renew(current)
        default: return false
        }
    }

    /// Whether there are other credentials than those that were refused without a reason. If the source cannot be read now, the
    /// refusal stays the error.
    private func renew(_ used: Credentials?) async -> Bool {
        (try? await credentials.replace(used, after: .unexplained)) ?? false
    }

    /// Takes over the server's clock when it differs from the signed time by more than `tolerance`.
    private func learnClock(_ response: HTTPResponse, tolerance: Duration) -> Bool {
        let now = time.now()
        return learned.withLock { $0.clock.learn(response, now: now, tolerance: tolerance) }
    }

    /// Signs for another region from now on.
    private func learnRegion(_ region: String?, not used: String?) -> Bool {
        guard profile.followsRegion, let region, FamilyEndpoint.isRegion(region), region != used else { return false }
        // Another request may have learnt the region while this one was under way.
        if learned.withLock({ $0.region }) == region { return true }
        guard let endpoint = endpoint(in: region) else { return false }
        learned.withLock { learned in
            learned.region = region
            learned.endpoint = endpoint
        }
        return true
    }

    /// The endpoint with the same host, unless that is the provider's own and contains the region: then the region in it is
    /// replaced. Other parts of the host stay, such as a private link or FIPS.
    private func endpoint(in region: String) -> FamilyEndpoint? {
        var moved: String?
        if let stated = settings.endpoint {
            let host = FamilyEndpoint.host(of: stated)
            let rules = profile.endpoints
            if host != rules.everyRegion {
                guard rules.owns(host), let named = rules.region(ofHost: host) else {
                    return learned.withLock { $0.endpoint }
                }
                moved = FamilyEndpoint.moved(stated, from: named, to: region)
            }
        }
        return try? FamilyEndpoint(
            moved, bucket: settings.bucket, region: region, addressing: settings.addressing, profile: profile)
    }

    /// Follows a redirect to a host of the provider, but not from HTTPS to plain HTTP.
    private func learnEndpoint(_ location: String?) -> Bool {
        guard let location, profile.endpoints.owns(FamilyEndpoint.host(of: location)) else { return false }
        let place = location.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false).prefix(3)
        let current = learned.withLock { $0 }
        guard
            let endpoint = try? FamilyEndpoint(
                place.joined(separator: "/"), bucket: settings.bucket, region: current.region,
                addressing: settings.addressing, profile: profile),
            endpoint.origin.isSecure || !current.endpoint.origin.isSecure, endpoint != current.endpoint
        else { return false }
        learned.withLock { $0.endpoint = endpoint }
        return true
    }
}
