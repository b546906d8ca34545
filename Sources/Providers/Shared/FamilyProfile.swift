package import ObjectStorage

/// What one S3-shaped store does differently, as data. Shared code asks this and never which provider it is.
package struct FamilyProfile: Sendable {
    package enum Addressing: Sendable, Hashable {
        /// `https://host/bucket/key`
        case path
        /// `https://bucket.host/key`
        case virtualHost
        /// `https://host/key`: the host is bound to one bucket.
        case customDomain
    }

    /// Where the query has what is to be made of an object.
    package enum Processing: Sendable, Hashable {
        /// As the value of this parameter.
        case parameter(String)
        /// As parameters of their own, `name=value&name`.
        case names
    }

    package enum ListVersion: Sendable, Hashable { case one, two }

    /// How a write is told that nothing may be there yet.
    package enum CreateOnly: Sendable, Hashable {
        /// `If-None-Match: *`
        case ifNoneMatch
        /// This header with `true`. Without effect in buckets that have or had versioning.
        case header(String)
    }

    /// What vouches for bodies besides MD5.
    package enum Checksum: Sendable, Hashable {
        case none
        /// `x-amz-checksum-crc64nvme` is sent with bodies, and asked for with reads.
        case crc64nvme
        /// Answers tell the whole object's, or the part's, in decimal in the header of this name.
        case crc64ecma(String)
    }

    /// How a copy names where it copies from.
    package enum CopySourceForm: Sendable, Hashable {
        /// `bucket/key` after this text.
        case path(String)
        /// `host/key`, the bucket's own host at the provider.
        case host
    }

    /// Which names of user metadata the store takes.
    package enum MetadataNames: Sendable, Hashable {
        case any
        /// Letters, digits and `-` (see `MetadataNameCodec`).
        case noUnderscore
    }

    package var name: String
    /// Of headers: `x-amz-`.
    package var prefix = "x-amz-"
    package var signer: any RequestSigner
    package var endpoints: any EndpointRules
    package var addressing = Addressing.path
    /// Of a host that does not tell one; nil when a region must be known.
    package var region: String?
    /// Signs the question where the bucket is, for signers that must know.
    package var locator: (any RequestSigner)?
    /// What location answers have before the region: `oss-`.
    package var locationPrefix = ""
    /// A bucket found in another region is asked there; otherwise it is an error that names the setting.
    package var followsRegion = true

    package var list = ListVersion.two
    /// Ask for percent-encoded keys in listings; stores that mishandle it get plain ones.
    package var encodesListings = true
    /// In encoded listings `+` is a space (form encoding).
    package var plusIsSpace = true
    /// Encoded listings encode their continuation token too.
    package var encodesTokens = false
    /// The store's own page is smaller than its largest, so every listing says how many it wants.
    package var namesPageSize = false

    package var checksum = Checksum.none
    /// An ETag of 32 hexadecimal digits is the MD5 of the content.
    package var etagIsMD5 = true
    package var createOnly = CreateOnly.ifNoneMatch
    /// Servers of many makers speak this: what one answers is believed after a second look has confirmed it.
    package var isOfAnyMaker = false
    /// Sent with every HEAD and GET of an object.
    package var readHeaders: [(name: String, value: String)] = []
    /// Sent with every ranged read.
    package var rangeHeaders: [(name: String, value: String)] = []
    package var copySource = CopySourceForm.path("")
    /// Some objects are refused as sources of copies: they are read and written instead.
    package var carriesUncopyable = false
    /// Values of the metadata directive.
    package var replaceDirective = "REPLACE"
    /// Sent when headers are replaced, so that tags stay.
    package var keepTagsDirective: String?
    /// Copies forget the ACL, so it is read and restated when headers are replaced.
    package var restatesACL = false
    package var metadataNames = MetadataNames.any
    /// The class that objects have when nothing is said, left out of what is told of objects.
    package var standardClass = "STANDARD"
    /// After the prefix: the KMS key of new objects.
    package var encryptionKeyHeader = "server-side-encryption-aws-kms-key-id"
    /// After the prefix; nil where there is none.
    package var encryptionContextHeader: String?
    /// Values of the encryption header with which an ETag is still an MD5.
    package var plainEncryptions: Set<String> = ["AES256"]
    /// Takes keys of the customer's own (SSE-C).
    package var customerKeys = true
    /// Of request documents; nil sends none.
    package var namespace: String? = "http://s3.amazonaws.com/doc/2006-03-01/"
    /// The element around a restore's tier.
    package var restoreJob = "GlacierJobParameters"
    /// Days that a restore has when nobody says how many; nil leaves them out.
    package var restoreDays: Int? = 1
    /// ACLs are set by a canned name only and read as one.
    package var cannedACL = false
    /// After the prefix, where ACLs of objects are set in one word.
    package var aclHeader = "acl"
    /// Canned ACLs.
    package var cannedACLs: Set<String> = []
    /// Holds the error document of HEAD answers, in base64.
    package var headErrorHeader: String?
    /// Codes whose meaning is the store's own, before those of the family.
    package var errors: [String: ObjectStoreError.Kind] = [:]
    /// The same for errors that only their message tells apart.
    package var errorMessages: [(text: String, kind: ObjectStoreError.Kind)] = []
    /// Bits a second that a traffic limit may have; nil where there is none.
    package var trafficLimits: ClosedRange<Int>?
    /// How lists of buckets go on: the parameter, and how many are asked for where the store's own page is small.
    package var bucketPaging: (name: String, limit: Int?) = ("continuation-token", nil)
    /// How the query of a GET says what is to be made of the object; nil where the store makes nothing of it.
    package var processing: Processing?
    package var capabilities = Capabilities()

    package init(name: String, signer: any RequestSigner, endpoints: any EndpointRules) {
        (self.name, self.signer, self.endpoints) = (name, signer, endpoints)
    }

    /// The store's header of this name: `storage-class` is `x-amz-storage-class`.
    func header(_ name: String) -> String { prefix + name }
}

/// What a provider's host names tell.
package protocol EndpointRules: Sendable {
    /// The provider's own host for a region, without a bucket.
    func host(region: String) -> String
    /// The region that a host of the provider names.
    func region(ofHost host: String) -> String?
    /// Whether the host is the provider's own, so that requests may be signed for it unasked.
    func owns(_ host: String) -> Bool
    /// How buckets are addressed at this host; nil as the profile says.
    func addressing(at host: String) -> FamilyProfile.Addressing?
    /// The host that lists the account's buckets of every region.
    var everyRegion: String { get }
}

extension EndpointRules {
    package func addressing(at host: String) -> FamilyProfile.Addressing? { nil }
}
