import Basics
import ObjectStorage
import Providers
import Settings

extension CommandError {
    /// Why unsigned requests are refused.
    init(anonymous error: ObjectStoreError, _ request: MountRequest) {
        let bucket = request.bucket.map { "the bucket \($0)" } ?? "the account"
        self.init(
            "no credentials were found\(request.emptySources), and \(bucket) refuses anonymous requests: "
                + "\(Self.told(error)); set PAILFS_ACCESS_KEY_ID and PAILFS_SECRET_ACCESS_KEY, or the credentials of the "
                + "provider's tools")
    }

    private static func told(_ error: ObjectStoreError) -> String {
        let details = [error.code, error.status.map { "HTTP \($0)" }, error.requestID.map { "request \($0)" }]
            .compactMap(\.self).joined(separator: ", ")
        return details.isEmpty ? error.message : "\(error.message) (\(details))"
    }

    /// Whether a message names an option of a mount.
    private static func namesOption(_ message: String) -> Bool {
        let words = message.split { !$0.isLetter && $0 != "-" }
        return OptionTable.options.contains { option in
            option.isListed && words.contains { $0 == option.name }
        }
    }

    /// The options that determine the way to a store.
    private static func way(_ request: MountRequest) -> String {
        let settings = request.settings
        let others = [settings.proxy.map { _ in "proxy" }, settings.dnsOverHTTPS.map { _ in "doh" }].compactMap(\.self)
        return others.isEmpty ? "the option endpoint" : "the options \((["endpoint"] + others).joined(separator: ", "))"
    }

    /// The bucket of a COS request that lacks the account's number, where that may be the cause.
    private static func bucketWithoutNumber(_ error: ObjectStoreError, _ request: MountRequest) -> String? {
        guard request.scheme == .cos, let bucket = request.bucket else { return nil }
        switch error.kind {
        case .noSuchBucket, .unreachable: break
        case .notFound where error.key == nil: break
        case .invalidRequest where error.status != nil && error.key == nil: break
        default: return nil
        }
        let number = bucket.split(separator: "-").last ?? ""
        let hasNumber = bucket.contains("-") && number.count >= 9 && number.allSatisfy(\.isNumber)
        return hasNumber || (try? request.cosCredentials().appID) ?? nil != nil ? nil : bucket
    }

    /// A refusal that has no code may come from a proxy.
    private static func orAtProxy(_ error: ObjectStoreError, _ request: MountRequest) -> String {
        guard error.code == nil, let proxy = ProxyInUse(request) else { return "" }
        return " or at the proxy \(proxy.text)"
    }

    /// Why the bucket of a request cannot be used, and the remedy. `origin` is the source of its credentials.
    init(_ error: ObjectStoreError, _ request: MountRequest, origin: String? = nil) {
        let bucket = request.bucket.map { "the bucket \($0)" } ?? "the account"
        let place = request.settings.endpoint.map { "at \($0)" } ?? "at the provider's own endpoint"
        let told = Self.told(error)
        // The remedy names this program's own variables already.
        let source = origin == "PAILFS_ACCESS_KEY_ID" ? nil : origin
        let from = source.map { " from \($0)" } ?? ""
        let these = source.map { "the credentials from \($0)" } ?? "these credentials"
        if let name = Self.bucketWithoutNumber(error, request) {
            self.init(
                "\(bucket) cannot be found \(place): \(told); COS bucket names end in the account's number, "
                    + "write cos://\(name)-APPID or set TENCENTCLOUD_APPID")
            return
        }
        switch error.kind {
        case .notFound where error.key != nil:
            let named = error.key.map { " \(Output.text($0.bytes))" } ?? ""
            self.init("\(bucket) \(place) has no object of this key\(named): \(told); check its name")
        case .notSupported:
            self.init("the store \(place) cannot do this: \(told)")
        case .noSuchBucket, .notFound:
            self.init(
                "\(bucket) does not exist \(place): \(told); check its name and the options endpoint and region")
        case .accessDenied where error.code == "NoCredentials",
            .credentialsRejected where error.code == "NoCredentials":
            self.init("there are no credentials for \(bucket)\(request.emptySources): \(told)")
        case .credentialsRejected where error.status == nil:
            self.init("there are no credentials for \(bucket): \(told)")
        case .invalidRequest where error.status == nil:
            let remedy = Self.namesOption(error.message) ? "correct that option" : "check the URL and the options"
            self.init("\(bucket) cannot be requested: \(told); \(remedy)")
        case .credentialsRejected:
            let own = "PAILFS_ACCESS_KEY_ID and PAILFS_SECRET_ACCESS_KEY"
            self.init(
                "the store \(place) does not accept the credentials\(from): \(told); "
                    + "check \(source == nil ? own : "key and secret there")")
        case .credentialsExpired where error.status == nil:
            self.init("the credentials for \(bucket) have expired: \(told)")
        case .credentialsExpired:
            let own = "PAILFS_ACCESS_KEY_ID, PAILFS_SECRET_ACCESS_KEY and PAILFS_SESSION_TOKEN"
            self.init(
                "\(these) have expired: \(told); renew \(source == nil ? own : "them there")")
        case .accessDenied:
            let isListing = [.list, .checkAccess].contains(error.operation)
            let what = isListing && !request.prefix.isEmpty ? "\(bucket) below \(request.prefix)" : bucket
            self.init(
                "\(these) may not \(isListing ? "list \(what)" : "do this in \(what)") \(place): \(told); "
                    + "allow it there\(Self.orAtProxy(error, request)), or use other credentials")
        case .wrongRegion where error.direction == .missing:
            self.init(
                "\(bucket) is at another endpoint: \(told); set the option endpoint to it, or try again later: "
                    + "new buckets may redirect for some hours")
        case .wrongRegion:
            self.init(
                "\(bucket) is in another region: \(told)"
                    + (error.direction == .named ? "" : "; set the option region"))
        case .clockSkew:
            self.init("the clocks of this machine and of the store differ too much: \(told); set this machine's clock")
        case _ where error.status == 407 || error.message.contains("CONNECT tunnel failed"):
            let proxy = ProxyInUse(request)
            let name = proxy?.text ?? "of the environment"
            let origin = proxy?.origin ?? "the option proxy"
            let isPassword = error.status == 407 || error.message.contains("407")
            let remedy =
                isPassword ? "check user and password in \(origin)" : "allow the store at the proxy, or check \(origin)"
            self.init("the proxy \(name) refuses the request: \(told); \(remedy)")
        case .unreachable:
            if let proxy = ProxyInUse(request), proxy.isNamed(in: error.message) {
                self.init("the proxy \(proxy.text) cannot be reached: \(told); check \(proxy.origin)")
                return
            }
            self.init("the store \(place) cannot be reached: \(told); check \(Self.way(request)) and the network")
        case .insecure where !error.message.lowercased().contains("certificate"):
            self.init(
                "the store \(place) cannot be reached over TLS: \(told); check host and scheme of the option endpoint")
        case .insecure:
            self.init(
                "the store \(place) has no certificate that this machine trusts: \(told); "
                    + "set ca-file to the authority's certificate, or check host and scheme of the option endpoint")
        case .interrupted, .timedOut, .cancelled:
            self.init(
                "the store \(place) does not answer: \(told); check \(Self.way(request)) and the network, or raise timeout"
            )
        case .malformedAnswer, .integrity:
            self.init("the server \(place) does not answer as an object store: \(told); check the option endpoint")
        case .throttled, .serverFault, .conflict, .quotaExceeded, .storageFull:
            self.init("the store \(place) cannot do this now: \(told); try again later")
        case .archived where error.isOfVersion:
            self.init(
                "the version's storage class does not allow this: \(told); \"pailfs versions URL\" shows the class; request a "
                    + "readable copy of an archived version in the store's console")
        case .archived:
            self.init(
                "the object's storage class does not allow this: \(told); \"pailfs class URL\" shows the class, and "
                    + "\"pailfs restore URL\" requests a readable copy of an archived object")
        // A finding of the doctor.
        case .contradiction where error.status == nil: self.init(error.message)
        case _ where error.key != nil:
            self.init("the store \(place) refuses this: \(told); check the key and the arguments")
        case .noSuchUpload, .bucketNotEmpty, .preconditionFailed, .notModified, .invalidRange, .keyTooLong, .keyRefused,
            .contradiction,
            .metadataTooLarge, .tooLarge, .partRejected, .invalidRequest:
            self.init(
                "the store \(place) refuses \(bucket): \(told); check the options endpoint and path-style")
        case .local(let errno):
            self.init("\(bucket) cannot be requested: \(told) (errno \(errno)); check this machine's disk")
        }
    }
}
