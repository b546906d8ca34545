package import ObjectStorage

/// How one S3-shaped store differs from the others, as data. Shared code reads this and never the provider's name.
package struct FamilyProfile: Sendable {
    package enum Addressing: Sendable, Hashable {
        /// `https://host/bucket/key`
        case path
        /// `https://bucket.host/key`
        case virtualHost
        /// `https://host/key`: the host is bound to one bucket.
        case customDomain
    }

    /// How a query carries the processing of an object.
    package enum Processing: Sendable, Hashable {
        /// As the value of this parameter.
        case parameter(String)
        /// As parameters of their own, `name=value&name`.
        case names
    }

    package enum ListVersion: Sendable, Hashable { case one, two }

    /// How a write requires that no object exists at the key.
    package enum CreateOnly: Sendable, Hashable {
        /// `If-None-Match: *`
        case ifNoneMatch
        /// This header with `true`. Ignored in buckets that have or had versioning.
        case header(String)
    }

    /// The checksum of bodies besides MD5.
    package enum Checksum: Sendable, Hashable {
        case none
        /// `x-amz-checksum-crc64nvme` is sent with bodies and requested with reads.
        case crc64nvme
        /// Answers have that of the whole object, or of the part, in decimal in the header of this name.
        case crc64ecma(String)
    }

    /// How a copy names its source.
    package enum CopySourceForm: Sendable, Hashable {
        /// `bucket/key` after this text.
        case path(String)
        /// `host/key`, the bucket's own host at the provider.
        case host
    }

    /// The names of user metadata that the store accepts.
    package enum MetadataNames: Sendable, Hashable {
        case any
        /// Letters, digits and `-` (see `MetadataNameCodec`).
        case noUnderscore
    }

    package var name: String
    /// The prefix of its headers: `x-amz-`.
    package var prefix = "x-amz-"
    package var signer: any RequestSigner
    package var endpoints: any EndpointRules
    package var addressing = Addressing.path
    /// The region for a host that does not contain one; nil when a region must be set.
    package var region: String?
    /// Signs the request for the bucket's region, for signers that need one.
    package var locator: (any RequestSigner)?
    /// The text before the region in the answer to that: `oss-`.
    package var locationPrefix = ""
    /// Whether a bucket in another region is used there; otherwise that is an error that names the setting.
    package var followsRegion = true

    package var list = ListVersion.two
    /// Whether listings request percent-encoded keys; stores that mishandle it return plain ones.
    package var encodesListings = true
    /// In encoded listings `+` is a space (form encoding).
    package var plusIsSpace = true
    /// Encoded listings encode their continuation token too.
    package var encodesTokens = false
    /// The store's default page is smaller than its largest, so every listing sets the page size.
    package var namesPageSize = false

    package var checksum = Checksum.none
    /// Whether an ETag of 32 hexadecimal digits is the MD5 of the content.
    package var etagIsMD5 = true
    package var createOnly = CreateOnly.ifNoneMatch
    /// Whether many different servers have this profile: an answer is trusted once a second request has confirmed it.
    package var isOfAnyMaker = false
    /// Headers of every HEAD and GET of an object.
    package var readHeaders: [(name: String, value: String)] = []
    /// Headers of every ranged read.
    package var rangeHeaders: [(name: String, value: String)] = []
    package var copySource = CopySourceForm.path("")
    /// Whether the store refuses to copy some objects: they are read and written instead.
    package var carriesUncopyable = false
    /// The value of the metadata directive that replaces headers.
    package var replaceDirective = "REPLACE"
    /// The value of the tagging directive that keeps the tags when headers are replaced.
    package var keepTagsDirective: String?
    /// Whether copies lose the ACL, so that it is read and restated when headers are replaced.
    package var restatesACL = false
    package var metadataNames = MetadataNames.any
    /// The default class of objects, omitted from their properties.
    package var standardClass = "STANDARD"
    /// The header, after the prefix, of the KMS key of new objects.
    package var encryptionKeyHeader = "server-side-encryption-aws-kms-key-id"
    /// The header after the prefix; nil where there is none.
    package var encryptionContextHeader: String?
    /// Values of the encryption header with which an ETag is still an MD5.
    package var plainEncryptions: Set<String> = ["AES256"]
    /// Whether the store accepts the user's own keys (SSE-C).
    package var customerKeys = true
    /// The XML namespace of request documents; nil sends none.
    package var namespace: String? = "http://s3.amazonaws.com/doc/2006-03-01/"
    /// The element around a restore's tier.
    package var restoreJob = "GlacierJobParameters"
    /// The days of a restore when the request sets none; nil leaves them out.
    package var restoreDays: Int? = 1
    /// Whether ACLs are set by a canned name only and read as one.
    package var cannedACL = false
    /// The header after the prefix, where the ACL of an object is set in one word.
    package var aclHeader = "acl"
    /// Canned ACLs.
    package var cannedACLs: Set<String> = []
    /// The header that has the error document of a HEAD answer, in base64.
    package var headErrorHeader: String?
    /// Codes with a meaning of the store's own, which precede the family's.
    package var errors: [String: ObjectStoreError.Kind] = [:]
    /// Errors that only their message distinguishes.
    package var errorMessages: [(text: String, kind: ObjectStoreError.Kind)] = []
    /// The allowed bits a second of a traffic limit; nil where there is none.
    package var trafficLimits: ClosedRange<Int>?
    /// Paging of the list of buckets: the parameter, and the page size where the store's default is small.
    package var bucketPaging: (name: String, limit: Int?) = ("continuation-token", nil)
    /// Whether the request for a new bucket names its region, unless that is `us-east-1`.
    package var namesRegionOfNewBuckets = false
    /// How the query of a GET carries the processing of the object; nil where the store has none.
    package var processing: Processing?
    package var capabilities = Capabilities()

    package init(name: String, signer: any RequestSigner, endpoints: any EndpointRules) {
        (self.name, self.signer, self.endpoints) = (name, signer, endpoints)
    }

    /// The store's header of this name: `storage-class` is `x-amz-storage-class`.
    func header(_ name: String) -> String { prefix + name }
}

/// A provider's rules for host names.
package protocol EndpointRules: Sendable {
    /// The provider's own host for a region, without a bucket.
    func host(region: String) -> String
    /// The region in a host name of the provider.
    func region(ofHost host: String) -> String?
    /// Whether the host is the provider's own, so that requests may be signed for it without being configured.
    func owns(_ host: String) -> Bool
    /// How buckets are addressed at this host; nil as the profile says.
    func addressing(at host: String) -> FamilyProfile.Addressing?
    /// The host that lists the account's buckets of every region.
    var everyRegion: String { get }
}

extension EndpointRules {
    package func addressing(at host: String) -> FamilyProfile.Addressing? { nil }
}
