package import Basics
package import ObjectStorage

/// The settings of one mount, complete: every option's value or its default.
package struct MountSettings: Sendable, Hashable {
    // MARK: the bucket
    /// `http://` or `https://` with host and perhaps port and path; nil takes the provider's own.
    package var endpoint: String?
    package var region: String?
    /// The profile in the provider's own files whose credentials are used.
    package var profile: String?
    /// A file with the credentials, for any store.
    package var credentialsFile: String?
    package var pathStyle = false
    package var signature = SignatureVersion.newest
    package var storageClass: String?
    /// Bytes of the smallest object that gets `storageClass`.
    package var smallestOfClass: Int64 = 0
    /// Canned ACL of new objects.
    package var acl: String?
    /// How the store encrypts new objects, with which key, and the context of a key service.
    package var encryption: String?
    package var encryptionKey: String?
    package var encryptionContext: String?
    /// A file with the user's own key for encryption by the store (SSE-C).
    package var customerKeyFile: String?
    /// Bits a second; nil sets no limit.
    package var trafficLimit: Int?
    package var requesterPays = false
    /// The parts of `uploadPolicy`.
    var callbackURL: String?
    var callbackHost: String?
    var callbackBody: String?
    var callbackType = CallbackType.form
    var callbackVariables: [String: String] = [:]
    var typeLimit: String?
    var detectsType = false
    var insertsOnly = false
    /// The login URL of a store that issues tokens.
    package var authURL: String?
    /// The domain for reading, at a store that has separate ones.
    package var downloadDomain: String?
    package var nameExclusions: [String] = []

    // MARK: what programs see
    package var readOnly = false
    /// The bucket is shown as it was at this time, and is read-only; nil shows it as it is.
    package var asOf: Timestamp?
    /// nil is the user that mounts.
    package var uid: UInt32?
    package var gid: UInt32?
    package var umask: UInt16 = 0
    /// The given modes; `fileMode` and `directoryMode` are the modes to use.
    var givenFileMode: UInt16?
    var givenDirectoryMode: UInt16?
    package var allowOther = false
    package var attributes = Attributes.listing
    package var symlinks = Symlinks.objects
    package var names = Names.escaped
    package var buckets = Buckets.fixed
    package var ttl = Duration.zero
    /// nil is `ttl`.
    package var negativeTTL: Duration?
    package var conflict = Conflict.keep
    package var durable = Durable.remote
    /// Total size for statfs; nil is a large constant.
    package var size: Int64?

    /// The rules of `include` and `exclude`, in their order.
    package var filters: [KeyFilter.Rule] = []
    /// The headers that files get by their names; the first rule that fits counts.
    package var headerRules: [HeaderRule] = []
    /// nil sets no limit.
    package var largestFile: Int64?

    // MARK: this machine
    package var restart = Restart.yes
    /// How long a mount that is in use stays after a signal that ends it.
    package var termWait = Duration.zero
    /// nil: the mount ends with the last of its processes.
    package var keeper: KeeperPlace?
    /// How long a keeper has the mount while no process serves it.
    package var patience = Duration.zero
    /// The directory for all buckets' caches; nil is the user's.
    package var cacheDirectory: String?
    /// The directory for data of all buckets' mounts that must not be lost; nil is the cache directory if one is set, else the
    /// user's.
    package var stateDirectory: String?
    package var cacheSize: Int64 = 0
    package var freeSpace: Int64 = 0
    package var memory: Int64 = 0
    package var readAhead: Int64 = 0

    // MARK: requests
    package var partSize: Int64 = 0
    package var uploads = 0
    package var downloads = 0
    /// Bytes a second, for all transfers each way together.
    package var uploadLimit = RateSchedule.unlimited
    package var downloadLimit = RateSchedule.unlimited
    /// Requests that may begin a second.
    package var requestLimit = RateSchedule.unlimited
    package var retries = 0
    package var timeout = Duration.zero
    package var connectTimeout = Duration.zero
    /// nil sets no limit.
    package var transferTimeout: Duration?
    package var checksums = Checksums.verify
    package var redirects = Redirects.refuse
    package var proxy: String?
    package var dnsOverHTTPS: String?
    package var caFile: String?
    package var clientCertificate: String?
    package var clientKey: String?
    package var userAgent: String?
    package var userAgentMark: String?
    package var userAgentSystem = false
    package var headers: [Header] = []

    // MARK: the log
    /// A file; nil is stderr in the foreground, syslog otherwise.
    package var logFile: String?
    package var logLevel = LogLevel.info
    package var logFormat = LogFormat.text
    package var metrics: MetricsPlace?

    /// Flags of mount(8) that the kernel enforces.
    package var kernelFlags: [String] = []

    package enum Attributes: String, Sendable, CaseIterable { case listing, exact }
    package enum Symlinks: String, Sendable, CaseIterable { case objects, native, metadata, off }
    package enum Names: String, Sendable, CaseIterable { case escaped, raw }
    package enum Buckets: String, Sendable, CaseIterable { case fixed, change }
    package enum Durable: String, Sendable, CaseIterable { case remote, local }
    package enum Conflict: String, Sendable, CaseIterable { case keep, overwrite, fail }
    package enum Restart: String, Sendable, CaseIterable { case yes, no }
    package enum CallbackType: String, Sendable, CaseIterable {
        case form, json

        var mediaType: String { self == .json ? "application/json" : "application/x-www-form-urlencoded" }
    }

    package enum Checksums: String, Sendable, CaseIterable { case verify, ignore }
    package enum SignatureVersion: String, Sendable, CaseIterable { case newest, v1, v4 }
    package enum Redirects: String, Sendable, CaseIterable { case refuse, follow }
    package enum LogFormat: String, Sendable, CaseIterable { case text, json }
    package enum LogLevel: String, Sendable, CaseIterable { case error, warning, info, debug, trace }

    /// A header for every request.
    package struct Header: Sendable, Hashable {
        package var name: String
        package var value: String

        package init(name: String, value: String) { (self.name, self.value) = (name, value) }
    }

    /// Every option at its default, as the table has it.
    package init() {
        for option in OptionTable.options {
            guard let text = option.defaultValue else { continue }
            do { try option.set(text, in: &self) } catch { fatalError("the default of \(option.name): \(error)") }
        }
    }

    /// The callbacks and limits that the store applies to uploaded files.
    package var uploadPolicy: UploadPolicy {
        var policy = UploadPolicy()
        if let callbackURL, let callbackBody {
            policy.callback = UploadPolicy.Callback(
                url: callbackURL, host: callbackHost, body: callbackBody, type: callbackType.mediaType,
                variables: callbackVariables)
        }
        (policy.typeLimit, policy.detectsType, policy.insertsOnly) = (typeLimit, detectsType, insertsOnly)
        return policy
    }

    /// Whether the kernel is to admit users other than the one that mounts.
    package var admitsOthers: Bool { allowOther || kernelFlags.contains("allow_root") }

    /// Whether a holder holds the mount.
    package var restarts: Bool { restart == .yes }

    /// Permission bits of a file that has none stored with it.
    package var fileMode: UInt16 { givenFileMode ?? 0o666 & ~umask }
    package var directoryMode: UInt16 { givenDirectoryMode ?? 0o777 & ~umask }
}
